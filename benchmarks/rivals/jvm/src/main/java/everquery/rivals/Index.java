package everquery.rivals;

/** A hand-made index of the queries of one key: what a Flink user keeps in keyed state. */
interface Index {
    /** Add a query; the next event sees it. */
    void add(Message query);

    /** Write out what an event brings about. */
    void take(Message event, Notices out);

    static Index of(String kind) {
        switch (kind) {
            case "border":
                return new EdgeIndex();
            case "range":
                return new LowIndex(false);
            default:
                return new LowIndex(true);
        }
    }
}

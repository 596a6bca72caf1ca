package everquery.rivals;

import java.nio.file.Path;

/** Runs one rival over one workload: rival, kind, folder, seconds, and whether to register single queries too. */
public final class Main {
    private Main() {}

    public static void main(String[] given) throws Exception {
        Work work = new Work(given[1], Path.of(given[2]));
        double seconds = Double.parseDouble(given[3]);
        boolean live = Boolean.parseBoolean(given[4]);
        Result result =
                given[0].equals("flink")
                        ? FlinkRival.run(work, seconds, live)
                        : new EsperRival(given[0], work).run(seconds, live);
        result.print();
        System.exit(0); // threads of Flink may still be about
    }
}

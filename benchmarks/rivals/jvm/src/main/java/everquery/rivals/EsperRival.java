package everquery.rivals;

import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPDeployment;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import java.util.Arrays;

/**
 * Esper: queries are rows of a table with a sorted index, and each event selects the rows that it concerns.
 *
 * <p>A statement a query would stop at some ten thousand of them. The last value of a key is kept by hand.
 */
final class EsperRival {
    private static final String SCHEMAS =
            "@public @buseventtype create objectarray schema Tick(k int, least double, most double, weight double);\n"
                    + "@public @buseventtype create objectarray schema Entry"
                    + "(number int, k int, query int, edge double, other double, islow boolean, amount double);\n";
    /** An end whose partner is crossed too belongs to a box that was jumped over. */
    private static final String CROSSED =
            "e.edge in (t.least:t.most] and not (e.other in (t.least:t.most])";
    private static final String BORDER_TABLE =
            SCHEMAS
                    + "create table Ends(number int primary key, k int, query int, edge double, other double, islow boolean);\n"
                    + "create index EndsByEdge on Ends(k hash, edge btree);\n"
                    + "insert into Ends select number, k, query, edge, other, islow from Entry;\n"
                    + "@name('told') on Tick as t select e.query as query, e.islow as islow from Ends as e"
                    + " where e.k = t.k and " + CROSSED + ";\n";
    private static final String BORDER_CONTEXT =
            SCHEMAS
                    + "create context ByKey partition by k from Tick, k from Entry;\n"
                    + "context ByKey create table Ends(number int primary key, query int, edge double, other double, islow boolean);\n"
                    + "context ByKey create index EndsByEdge on Ends(edge btree);\n"
                    + "context ByKey insert into Ends select number, query, edge, other, islow from Entry;\n"
                    + "@name('told') context ByKey on Tick as t select e.query as query, e.islow as islow from Ends as e"
                    + " where " + CROSSED + ";\n";
    private static final String RANGE_TABLE =
            SCHEMAS
                    + "create table Ranges(query int primary key, edge double, other double);\n"
                    + "create index RangesByEdge on Ranges(edge btree);\n"
                    + "insert into Ranges select query, edge, other from Entry;\n"
                    + "@name('told') on Tick as t select r.query as query, true as islow from Ranges as r"
                    + " where r.edge in [t.least:t.most] and r.other > t.most;\n";
    private static final String THRESHOLD_TABLE =
            SCHEMAS
                    + "create table Totals(query int primary key, edge double, other double, amount double);\n"
                    + "create index TotalsByEdge on Totals(edge btree);\n"
                    + "insert into Totals select query, edge, other, amount from Entry;\n"
                    + "on Tick as t merge Totals as q where q.edge in [t.least:t.most] and q.other > t.most"
                    + " when matched and q.amount <= t.weight"
                    + " then insert into Fired select q.query as query then delete"
                    + " when matched then update set amount = q.amount - t.weight;\n"
                    + "@name('told') select query, true as islow from Fired;\n";

    private static final int TIMES = 200;
    private final Work work;
    private final String name;
    private final Notices notices = new Notices();
    private final EPRuntime runtime;
    private final EPEventService service;
    private final double[] last;
    private int row;
    private int entries;

    EsperRival(String name, Work work) throws Exception {
        this.name = name;
        this.work = work;
        Configuration configuration = new Configuration();
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        configuration.getRuntime().getThreading().setListenerDispatchPreserveOrder(false);
        configuration.getRuntime().getThreading().setInsertIntoDispatchPreserveOrder(false);
        EPCompiled compiled =
                EPCompilerProvider.getCompiler().compile(statements(), new CompilerArguments(configuration));
        runtime = EPRuntimeProvider.getRuntime(name, configuration);
        EPDeployment deployment = runtime.getDeploymentService().deploy(compiled);
        runtime.getDeploymentService()
                .getStatement(deployment.getDeploymentId(), "told")
                .addListener((told, gone, statement, of) -> write(told));
        service = runtime.getEventService();
        last = new double[work.keys()];
        Arrays.fill(last, Double.NEGATIVE_INFINITY);
    }

    private String statements() {
        switch (work.kind) {
            case "border":
                return name.equals("esper-context") ? BORDER_CONTEXT : BORDER_TABLE;
            case "range":
                return RANGE_TABLE;
            default:
                return THRESHOLD_TABLE;
        }
    }

    private void write(EventBean[] told) {
        for (EventBean each : told) {
            notices.write((Integer) each.get("query"), row, (Boolean) each.get("islow") ? 1 : 0);
        }
    }

    Result run(double limit, boolean live) {
        Result result = new Result();
        long begin = System.nanoTime();
        for (int query = 0; query < work.low.length; query++) {
            register(query, work.kind.equals("border") ? (int) work.of[query] : 0, work.low[query], work.high[query]);
        }
        result.loadSeconds = (System.nanoTime() - begin) / 1e9;
        for (row = 0; row < work.first; row++) {
            send(row);
        }
        int end = work.value.length;
        int compared = play(work.first, work.first + (end - work.first) / 3, limit);
        work.check(name, compared, notices.count);
        begin = System.nanoTime();
        int done = play(compared, end, limit);
        result.seconds = (System.nanoTime() - begin) / 1e9;
        work.check(name, done, notices.count);
        result.compared = compared - work.first;
        result.events = done - compared;
        if (live) {
            result.untilLive = untilLive();
        }
        runtime.destroy();
        return result;
    }

    /** Send events until the last one or the limit of seconds; return where it stopped. */
    private int play(int begin, int end, double limit) {
        long deadline = System.nanoTime() + (long) (1e9 * limit);
        for (row = begin; row < end; row++) {
            send(row);
            if ((row & 15) == 0 && System.nanoTime() > deadline) {
                return row + 1;
            }
        }
        return end;
    }

    private void send(int row) {
        boolean border = work.kind.equals("border");
        send(border ? (int) work.with[row] : 0, work.value[row], border ? 0 : work.with[row]);
    }

    private void send(int key, double value, long weight) {
        double least = value - work.widest;
        double most = value;
        if (work.kind.equals("border")) {
            least = Math.min(last[key], value);
            most = Math.max(last[key], value);
            last[key] = value;
        }
        service.sendEventObjectArray(new Object[] {key, least, most, (double) weight}, "Tick");
    }

    private void register(int query, int key, double low, double high) {
        if (work.kind.equals("border")) {
            entry(key, query, low, high, true, 0);
            entry(key, query, high, low, false, 0);
        } else {
            entry(key, query, low, high, true, work.kind.equals("threshold") ? work.of[query] : 0);
        }
    }

    private void entry(int key, int query, double edge, double other, boolean low, double amount) {
        service.sendEventObjectArray(new Object[] {entries++, key, query, edge, other, low, amount}, "Entry");
    }

    /** Register borders, each in front of the event that enters it; return the median microseconds more. */
    private double untilLive() {
        double[] without = new double[TIMES];
        double[] having = new double[TIMES];
        double far = 2e6;
        long before = notices.count;
        send(0, far, 0);
        before = notices.count;
        for (int i = 0; i < TIMES; i++) {
            long begin = System.nanoTime();
            send(0, far + 5, 0);
            without[i] = (System.nanoTime() - begin) / 1e3;
            begin = System.nanoTime();
            register(work.low.length + i, 0, far + 10, far + 20);
            send(0, far + 15, 0);
            having[i] = (System.nanoTime() - begin) / 1e3;
            far += 30;
            send(0, far, 0);
        }
        if (notices.count - before != 2 * TIMES) {
            throw new IllegalStateException(name + " told " + (notices.count - before) + " of " + TIMES + " new queries");
        }
        return Math.max(0, Result.median(having) - Result.median(without));
    }
}

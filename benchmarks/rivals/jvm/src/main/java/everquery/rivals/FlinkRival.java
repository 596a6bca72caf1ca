package everquery.rivals;

import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.SinkFunction;
import org.apache.flink.streaming.api.functions.source.SourceFunction;
import org.apache.flink.util.Collector;

/**
 * Flink: queries and events are one stream by key, and the state of a key is a hand-made index.
 *
 * <p>The job runs in this process with one task a step, and its state on the heap. Source and function talk
 * about where they stand by static fields, which only a job in one process can do.
 */
final class FlinkRival {
    private static final int TIMES = 200;
    private static final int LAST = -1;
    private static Work work;
    private static double limit;
    private static boolean live;
    private static Result result;
    private static volatile long processed;
    private static volatile boolean stopped;
    private static volatile boolean drained;
    private static volatile RuntimeException failure;
    private static final Notices NOTICES = new Notices();

    private FlinkRival() {}

    static Result run(Work given, double seconds, boolean untilLive) throws Exception {
        work = given;
        limit = seconds;
        live = untilLive;
        result = new Result();
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.getConfig().enableObjectReuse();
        environment.setBufferTimeout(live ? 0 : 100);
        environment
                .addSource(new Everything())
                .returns(Message.class)
                .keyBy(message -> message.key)
                .process(new Watching())
                .addSink(new Written());
        environment.execute("rivals");
        if (failure != null) {
            throw failure;
        }
        return result;
    }

    /** All queries, the first sights, the events; then, if asked, single queries and events in turns. */
    private static final class Everything implements SourceFunction<Message> {
        private static final long serialVersionUID = 1L;

        @Override
        public void run(SourceContext<Message> out) {
            boolean border = work.kind.equals("border");
            boolean threshold = work.kind.equals("threshold");
            long begin = System.nanoTime();
            for (int i = 0; i < work.low.length; i++) {
                double total = threshold ? work.of[i] : 0;
                out.collect(new Message(true, border ? (int) work.of[i] : 0, i, work.low[i], work.high[i], total));
            }
            result.loadSeconds = (System.nanoTime() - begin) / 1e9;
            for (int row = 0; row < work.value.length && !stopped; row++) {
                int key = border ? (int) work.with[row] : 0;
                out.collect(new Message(false, key, row, work.value[row], 0, threshold ? work.with[row] : 0));
            }
            if (live && failure == null) {
                untilLive(out);
            }
        }

        private void untilLive(SourceContext<Message> out) {
            out.collect(new Message(false, 0, LAST, 0, 0, 0));
            while (!drained) {
                LockSupport.parkNanos(1_000_000);
            }
            double[] without = new double[TIMES];
            double[] having = new double[TIMES];
            double far = 2e6;
            send(out, false, 0, far, 0);
            long before = NOTICES.count;
            for (int i = 0; i < TIMES; i++) {
                without[i] = send(out, false, 0, far + 5, 0);
                having[i] = send(out, true, work.low.length + i, far + 10, far + 20);
                having[i] += send(out, false, 0, far + 15, 0);
                far += 30;
                send(out, false, 0, far, 0);
            }
            if (NOTICES.count - before != 2 * TIMES) {
                failure = new IllegalStateException("flink told " + (NOTICES.count - before) + " of new queries");
            }
            result.untilLive = Math.max(0, Result.median(having) - Result.median(without));
        }

        private double send(SourceContext<Message> out, boolean query, int number, double low, double high) {
            long expected = processed + 1;
            long begin = System.nanoTime();
            out.collect(new Message(query, 0, number, low, high, 0));
            while (processed < expected) {
                Thread.yield();
            }
            return (System.nanoTime() - begin) / 1e3;
        }

        @Override
        public void cancel() {
            stopped = true;
        }
    }

    /** The index of each key in keyed state; compares and times as events pass. */
    private static final class Watching extends KeyedProcessFunction<Integer, Message, Long> {
        private static final long serialVersionUID = 1L;
        private transient ValueState<Index> state;
        private transient int events;
        private transient int compared;
        private transient long begin;
        private transient long deadline;

        @Override
        public void open(Configuration parameters) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("index", Index.class));
        }

        @Override
        public void processElement(Message message, Context context, Collector<Long> out) throws Exception {
            if (stopped && !drained) { // what was under way when time was up
                drained = message.number == LAST;
                return;
            }
            Index index = state.value();
            if (index == null) {
                index = Index.of(work.kind);
                state.update(index);
            }
            if (message.query) {
                index.add(message);
            } else {
                long told = NOTICES.count;
                index.take(message, NOTICES);
                if (NOTICES.count > told) {
                    out.collect(NOTICES.count);
                }
            }
            if (stopped) {
                processed++;
            } else if (!message.query) {
                note(++events);
            }
        }

        private void note(int events) {
            int end = work.value.length;
            if (events == Math.max(1, work.first)) {
                deadline = System.nanoTime() + (long) (1e9 * limit);
            }
            boolean late = (events & 15) == 0 && System.nanoTime() > deadline;
            if (events <= work.first) {
                return;
            }
            if (compared == 0) {
                if (late || events >= work.first + (end - work.first) / 3) {
                    compared = events;
                    check(events);
                    begin = System.nanoTime();
                    deadline = begin + (long) (1e9 * limit);
                }
            } else if (late || events == end) {
                result.seconds = (System.nanoTime() - begin) / 1e9;
                result.compared = compared - work.first;
                result.events = events - compared;
                check(events);
                stopped = true;
            }
        }

        private void check(int events) {
            try {
                work.check("flink", events, NOTICES.count);
            } catch (RuntimeException unequal) {
                failure = unequal;
                stopped = true;
            }
        }
    }

    /** Where notices end: they are written already, and their number passes by. */
    private static final class Written implements SinkFunction<Long> {
        private static final long serialVersionUID = 1L;

        @Override
        public void invoke(Long count, Context context) {}
    }
}

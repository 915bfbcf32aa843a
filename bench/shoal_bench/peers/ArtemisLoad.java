// Publishers and subscribers of one cell of the FioranoMQ study, through Artemis's own Java client (see artemis_load.py).
//
// Standard input says what to do, a line each with tabs between: seconds, every_s, publishers, size; then `subscribe TOPIC SELECTOR`,
// `beside TOPIC SELECTOR` (on the same connection as the subscriber before it), `idle TOPIC SELECTOR` and `message TOPIC CORRELATION NAME=VALUE…`; `ready` ends the plan, and the next line begins the run.
// Each interval it prints how many messages were sent and received. Messages are made before the run.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

public class ArtemisLoad {
    private static final int IDLE_CONNECTIONS = 10;
    private static final LongAdder sent = new LongAdder();
    private static final LongAdder received = new LongAdder();

    public static void main(String[] arguments) throws Exception {
        var told = new BufferedReader(new InputStreamReader(System.in));
        var factory = new ActiveMQConnectionFactory("tcp://127.0.0.1:" + arguments[0]);
        String[] head = told.readLine().split("\t");
        double seconds = Double.parseDouble(head[0]);
        double every = Double.parseDouble(head[1]);
        int publishers = Integer.parseInt(head[2]);
        int size = Integer.parseInt(head[3]);
        long copies = Long.parseLong(head[4]);
        var connections = new ArrayList<Connection>();
        var idle = new ArrayList<Session>();
        var messages = new ArrayList<String[]>();
        int idles = 0;
        Session last = null;
        for (String line = told.readLine(); !line.equals("ready"); line = told.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "subscribe" -> {
                    last = session(factory, connections);
                    subscribe(last, words);
                }
                case "beside" -> subscribe(last, words);
                case "idle" -> {
                    if (idle.size() < IDLE_CONNECTIONS) {
                        idle.add(session(factory, connections));
                    }
                    subscribe(idle.get(idles++ % IDLE_CONNECTIONS), words);
                }
                default -> messages.add(words);
            }
        }
        var threads = new ArrayList<Thread>();
        var stop = new long[1];
        for (int number = 0; number < publishers; number++) {
            threads.add(publisher(session(factory, connections), messages, size, stop));
        }
        System.out.println("{\"ready\": true}");
        told.readLine();
        long began = System.nanoTime();
        stop[0] = began + (long) (seconds * 1e9);
        threads.forEach(Thread::start);
        for (int number = 0; number * every < seconds; number++) {
            sleepUntil(began + (long) (number * every * 1e9));
            say(began);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (received.sum() < sent.sum() * copies && System.nanoTime() < deadline) {
            Thread.sleep(10);
        }
        System.out.println("{\"result\": {\"sent\": " + sent.sum() + ", \"received\": " + received.sum() + "}}");
        for (Connection connection : connections) {
            connection.close();
        }
        factory.close();
    }

    private static Session session(ActiveMQConnectionFactory factory, List<Connection> connections) throws Exception {
        Connection connection = factory.createConnection();
        connections.add(connection);
        connection.start();
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    private static void subscribe(Session session, String[] words) throws Exception {
        String selector = words[2].isEmpty() ? null : words[2];
        session.createConsumer(session.createTopic(words[1]), selector).setMessageListener(message -> received.increment());
    }

    private static Thread publisher(Session session, List<String[]> plan, int size, long[] stop) throws Exception {
        var made = new ArrayList<Message>();
        var producers = new ArrayList<MessageProducer>();
        for (String[] words : plan) {
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(new byte[size]);
            if (!words[2].isEmpty()) {
                message.setJMSCorrelationID(words[2]);
            }
            for (int at = 3; at < words.length; at++) {
                int split = words[at].indexOf('=');
                message.setStringProperty(words[at].substring(0, split), words[at].substring(split + 1));
            }
            MessageProducer producer = session.createProducer(session.createTopic(words[1]));
            producer.setDeliveryMode(DeliveryMode.PERSISTENT);
            producer.setDisableMessageTimestamp(true);
            producers.add(producer);
            made.add(message);
        }
        return new Thread(() -> {
            try {
                for (int at = 0; System.nanoTime() < stop[0]; at = (at + 1) % made.size()) {
                    producers.get(at).send(made.get(at));
                    sent.increment();
                }
            } catch (Exception error) {
                error.printStackTrace();
                System.exit(1);
            }
        });
    }

    private static void say(long began) {
        double at = (System.nanoTime() - began) / 1e9;
        System.out.println("{\"at_s\": " + at + ", \"sent\": " + sent.sum() + ", \"received\": " + received.sum() + "}");
    }

    private static void sleepUntil(long when) throws InterruptedException {
        long left = when - System.nanoTime();
        if (left > 0) {
            Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
        }
    }
}

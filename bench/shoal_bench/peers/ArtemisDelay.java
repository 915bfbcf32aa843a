// Narada's experiment through Artemis's own Java client (see seeds/narada.py): `subscribers` are many consumers on few connections,
// `measure` is the publisher with the subscriber that times each message, in one process, so that one clock is read.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

public class ArtemisDelay {
    private static final String TOPIC = "narada.data";

    public static void main(String[] arguments) throws Exception {
        var factory = new ActiveMQConnectionFactory("tcp://127.0.0.1:" + arguments[1]);
        var told = new BufferedReader(new InputStreamReader(System.in));
        if (arguments[0].equals("subscribers")) {
            int connections = Integer.parseInt(arguments[3]);
            subscribers(factory, told, Integer.parseInt(arguments[2]), connections, Long.parseLong(arguments[4]));
        } else {
            double rate = Double.parseDouble(arguments[2]);
            int count = Integer.parseInt(arguments[4]);
            measure(factory, told, rate, Integer.parseInt(arguments[3]), count, Integer.parseInt(arguments[5]));
        }
        System.exit(0);
    }

    private static void subscribers(
            ActiveMQConnectionFactory factory, BufferedReader told, int count, int connections, long expected) throws Exception {
        var received = new LongAdder();
        for (int at = 0; at < connections; at++) {
            Connection connection = factory.createConnection();
            for (int number = at; number < count; number += connections) {
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                session.createConsumer(session.createTopic(TOPIC)).setMessageListener(message -> received.increment());
            }
            connection.start();
        }
        System.out.println("{\"ready\": true}");
        told.readLine();
        for (int turn = 0; turn < 3000 && received.sum() < expected; turn++) {
            Thread.sleep(10);
        }
        System.out.println("{\"result\": {\"received\": " + received.sum() + "}}");
    }

    private static void measure(
            ActiveMQConnectionFactory factory, BufferedReader told, double rate, int size, int timed, int warm) throws Exception {
        int count = warm + timed;
        Connection reading = factory.createConnection();
        Session session = reading.createSession(false, Session.AUTO_ACKNOWLEDGE);
        long[] sent = new long[count];
        long[] came = new long[count];
        var left = new CountDownLatch(count);
        session.createConsumer(session.createTopic(TOPIC)).setMessageListener(message -> {
            long now = System.nanoTime();
            try {
                byte[] head = new byte[8];
                ((BytesMessage) message).readBytes(head);
                came[(int) ByteBuffer.wrap(head).getLong()] = now;
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
            left.countDown();
        });
        reading.start();
        Connection writing = factory.createConnection();
        Session writer = writing.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = writer.createProducer(writer.createTopic(TOPIC));
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        System.out.println("{\"ready\": true}");
        told.readLine();
        byte[] body = new byte[size];
        long began = System.nanoTime();
        for (int number = 0; number < count; number++) {
            if (number == warm) {
                for (int turn = 0; turn < 3000 && left.getCount() > timed; turn++) {
                    Thread.sleep(10);
                }
                began = System.nanoTime();
            }
            long wait = began + (long) ((number - warm) / rate * 1e9) - System.nanoTime();
            if (number >= warm && wait > 0) {
                Thread.sleep(wait / 1_000_000, (int) (wait % 1_000_000));
            }
            ByteBuffer.wrap(body).putLong(0, number);
            BytesMessage message = writer.createBytesMessage();
            message.writeBytes(body);
            sent[number] = System.nanoTime();
            producer.send(message);
        }
        left.await(30, TimeUnit.SECONDS);
        var delays = new StringBuilder("[");
        for (int number = warm; number < count; number++) {
            if (came[number] != 0) {
                delays.append(delays.length() > 1 ? "," : "").append((came[number] - sent[number]) / 1e9);
            }
        }
        System.out.println("{\"result\": {\"sent\": " + count + ", \"delays_s\": " + delays + "]}}");
    }
}

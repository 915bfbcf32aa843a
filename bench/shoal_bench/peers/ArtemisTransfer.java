// One side of a transfer through Artemis's own Java client, for a process of its own (see artemis_jms.py).
//
// Messages have the header fields, the properties and the body that shoal_bench.jms_sides sends. Some are sent first that are not
// timed, until the virtual machine has compiled what it runs.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.Topic;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

public class ArtemisTransfer {
    public static void main(String[] arguments) throws Exception {
        String role = arguments[0];
        String server = arguments[1];
        int warm = Integer.parseInt(arguments[2]);
        int count = Integer.parseInt(arguments[3]);
        int size = Integer.parseInt(arguments[4]);
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory("tcp://" + server);
        Connection connection = factory.createConnection();
        try {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Topic topic = session.createTopic("bench.data");
            connection.start();
            if (role.equals("publish")) {
                publish(session, topic, warm + count, size);
            } else {
                subscribe(session, topic, warm, count, size);
            }
        } finally {
            connection.close();
            factory.close();
        }
    }

    private static void publish(Session session, Topic topic, int count, int size) throws Exception {
        MessageProducer producer = session.createProducer(topic);
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        producer.setPriority(5);
        producer.setTimeToLive(600_000);
        Topic answers = session.createTopic("trades.answers");
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("{\"ready\": true}");
        told.readLine();
        double began = cpuSeconds();
        byte[] body = new byte[size];
        for (int number = 0; number < count; number++) {
            ByteBuffer.wrap(body).putLong(0, number);
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(body);
            message.setJMSCorrelationID("order-4711");
            message.setJMSType("trade");
            message.setJMSReplyTo(answers);
            message.setStringProperty("desk", "equities");
            message.setBooleanProperty("urgent", true);
            message.setLongProperty("volume", 100_000);
            message.setDoubleProperty("price", 10.25);
            message.setStringProperty("region", "EU");
            producer.send(message);
        }
        double used = cpuSeconds() - began;
        told.readLine();
        System.out.println("{\"result\": {\"cpu_s\": " + used / count + "}}");
    }

    private static void subscribe(Session session, Topic topic, int warm, int count, int size) throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        System.out.println("{\"ready\": true}");
        byte[] body = new byte[size];
        long began = 0;
        double used = 0;
        for (int number = 0; number < warm + count; number++) {
            BytesMessage message = (BytesMessage) consumer.receive(60_000);
            if (message == null) {
                throw new IllegalStateError("message " + number + " did not come");
            }
            message.readBytes(body);
            if (ByteBuffer.wrap(body).getLong(0) != number) {
                throw new IllegalStateError("message " + number + " came out of its place");
            }
            if (number == warm) {
                began = System.nanoTime();
                used = cpuSeconds();
            }
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        double each = (cpuSeconds() - used) / (count - 1);
        System.out.println("{\"result\": {\"seconds\": " + seconds + ", \"cpu_s\": " + each + "}}");
    }

    private static double cpuSeconds() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime() / 1e9;
    }

    private static final class IllegalStateError extends RuntimeException {
        IllegalStateError(String what) {
            super(what);
        }
    }
}

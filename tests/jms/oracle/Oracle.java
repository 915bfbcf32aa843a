// Asks Artemis, by its own Java client, what the specification leaves to the provider. Prints "question<TAB>answer" lines, the same
// questions as oracle.py.

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

public class Oracle {
    static ActiveMQConnectionFactory factory;

    interface Question {
        String ask(Connection connection) throws Exception;
    }

    static void ask(String name, Question question) throws Exception {
        String answer;
        Connection connection = factory.createConnection();
        try {
            connection.start();
            answer = question.ask(connection);
        } catch (Exception error) {
            answer = error.getClass().getSimpleName();
        } finally {
            connection.close();
        }
        System.out.println(name + "\t" + answer);
    }

    static String text(Message message) throws Exception {
        return message == null ? "nothing" : ((TextMessage) message).getText();
    }

    static List<String> texts(MessageConsumer consumer, int count) throws Exception {
        List<String> found = new ArrayList<>();
        for (int at = 0; at < count; at++) {
            found.add(text(consumer.receive(3000)));
        }
        return found;
    }

    static MessageProducer persistent(Session session, Queue queue) throws Exception {
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryMode(DeliveryMode.PERSISTENT);
        return producer;
    }

    public static void main(String[] arguments) throws Exception {
        factory = new ActiveMQConnectionFactory("tcp://127.0.0.1:" + arguments[0]);
        ask("priorities", connection -> {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("priorities");
            MessageProducer producer = persistent(session, queue);
            for (int priority : new int[] {1, 9, 5}) {
                producer.setPriority(priority);
                producer.send(session.createTextMessage("" + priority));
            }
            return String.join(" ", texts(session.createConsumer(queue), 3));
        });
        ask("no_id", connection -> {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createTopic("ids"));
            producer.setDisableMessageID(true);
            Message message = session.createMessage();
            producer.send(message);
            return message.getJMSMessageID() == null ? "none" : "an id";
        });
        ask("no_timestamp", connection -> {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createTopic("times"));
            producer.setDisableMessageTimestamp(true);
            Message message = session.createMessage();
            producer.send(message);
            return message.getJMSTimestamp() == 0 ? "0" : "a time";
        });
        ask("recover", connection -> {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue queue = session.createQueue("recover");
            MessageProducer producer = persistent(session, queue);
            for (int number = 1; number <= 3; number++) {
                producer.send(session.createTextMessage("" + number));
            }
            MessageConsumer consumer = session.createConsumer(queue);
            texts(consumer, 2);
            session.recover();
            List<String> again = new ArrayList<>();
            for (int at = 0; at < 3; at++) {
                Message message = consumer.receive(3000);
                again.add(text(message) + (message.getJMSRedelivered() ? "*" : ""));
            }
            return String.join(" ", again);
        });
        ask("failing_listener", connection -> {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("failing");
            persistent(session, queue).send(session.createTextMessage("x"));
            AtomicInteger calls = new AtomicInteger();
            session.createConsumer(queue).setMessageListener(message -> {
                calls.incrementAndGet();
                throw new RuntimeException("no");
            });
            int before = -1;
            while (before != calls.get()) {
                before = calls.get();
                Thread.sleep(1500);
            }
            return calls.get() + " deliveries";
        });
        ask("browse_unacknowledged", connection -> {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue queue = session.createQueue("browsed");
            persistent(session, queue).send(session.createTextMessage("x"));
            texts(session.createConsumer(queue), 1);
            Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            return Collections.list(other.createBrowser(queue).getEnumeration()).size() + " messages";
        });
        ask("browse_expired", connection -> {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("expired");
            MessageProducer producer = persistent(session, queue);
            producer.setTimeToLive(50);
            producer.send(session.createTextMessage("x"));
            Thread.sleep(300);
            return Collections.list(session.createBrowser(queue).getEnumeration()).size() + " messages";
        });
        ask("null_text", connection -> {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Topic topic = session.createTopic("texts");
            MessageConsumer consumer = session.createConsumer(topic);
            session.createProducer(topic).send(session.createTextMessage());
            return ((TextMessage) consumer.receive(3000)).getText() == null ? "null" : "empty";
        });
        ask("unknown_jmsx", connection -> {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createMessage().setStringProperty("JMSXFoo", "x");
            return "accepted";
        });
        ask("selector_of_unlike_literals", connection -> {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createConsumer(session.createTopic("unlike"), "TRUE = 0");
            return "accepted";
        });
        ask("closed_consumer_then_recover", connection -> {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue queue = session.createQueue("closed");
            persistent(session, queue).send(session.createTextMessage("x"));
            MessageConsumer consumer = session.createConsumer(queue);
            texts(consumer, 1);
            consumer.close();
            session.recover();
            return text(session.createConsumer(queue).receive(3000));
        });
        ask("acknowledge_after_consumer_closed", connection -> {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue queue = session.createQueue("late");
            persistent(session, queue).send(session.createTextMessage("x"));
            MessageConsumer consumer = session.createConsumer(queue);
            Message message = consumer.receive(3000);
            consumer.close();
            message.acknowledge();
            Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            return text(other.createConsumer(queue).receive(500));
        });
        ask("forward_received", connection -> {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Topic topic = session.createTopic("forward");
            MessageConsumer consumer = session.createConsumer(topic);
            Message message = session.createTextMessage("x");
            message.setIntProperty("a", 1);
            session.createProducer(topic).send(message);
            Message received = consumer.receive(3000);
            String before = received.getJMSMessageID();
            session.createProducer(topic).send(received);
            return before.equals(received.getJMSMessageID()) ? "the old id" : "a new id";
        });
        ask("write_after_send", connection -> {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            BytesMessage message = session.createBytesMessage();
            message.writeInt(1);
            session.createProducer(session.createTopic("written")).send(message);
            message.writeInt(2);
            return "more can be written";
        });
        factory.close();
        System.exit(0);
    }
}

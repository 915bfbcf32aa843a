"""Queues as source and sink of a real Spark: each message once."""

from conftest import finish

import shoal


def run(frame, store, checkpoint):
    query = (
        frame.writeStream.format("shoal")
        .options(store=store.address, queue="invoices", checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    finish(query)
    return query


def test_what_a_query_takes_from_a_queue_it_sends_to_another_once(spark, store, tmp_path):
    chosen = {"store": store.address, "queue": "orders"}
    orders = spark.readStream.format("shoal").options(
        **chosen, subscription="billing", maxOffsetsPerTrigger=20
    )
    invoices = orders.load().selectExpr("concat('invoice ', CAST(body AS STRING)) AS body", "priority")
    with shoal.connect(interface="lo", domain=store.domain) as bus:
        queue = bus.queue("orders")
        for number in range(50):
            queue.send(str(number), priority=number % 3, window=50)
        bus.flush(60)
        run(invoices, store, tmp_path / "checkpoint")
        queue.send("50")
        waiting = spark.read.format("shoal").options(**chosen).load()
        assert [row["body"] for row in waiting.collect()] == [b"50"], "a batch looks, and does not take"
        run(invoices, store, tmp_path / "checkpoint")
        assert queue.receive(0.0) is None
        with bus.queue("invoices").consume() as consumer:
            received = [consumer.receive(60) for _ in range(51)]
            assert consumer.receive(0.0) is None
    assert sorted(each.body for each in received) == sorted(f"invoice {number}" for number in range(51))
    assert {each.priority for each in received} == {0, 1, 2, 4}

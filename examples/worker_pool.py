"""A pool of workers: each says that it is free, and gets the next piece of work as the answer.

python examples/worker_pool.py work
python examples/worker_pool.py submit [COUNT]

Workers ask, so a slow one gets less. What one that dies was at is handed out again.
"""

import sys
import time

import shoal

#: A worker with a job that says nothing for this time is taken for dead.
PATIENCE_S = 5.0


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def work() -> None:
    with shoal.connect() as bus:
        bus.wait_for_subscribers("work/next", timeout_s=None)
        result = None
        while True:
            try:
                task = bus.request("work/next", {"worker": bus.node, "result": result}).body
            except shoal.NoReplyError:
                return
            if task is None:
                return
            result = [task, is_prime(task)]


class Pool:
    """What is to do, and who is at it."""

    def __init__(self, tasks: list[int]) -> None:
        self.waiting = tasks
        self.given: dict[int, tuple[int, float]] = {}
        self.results: dict[int, bool] = {}

    def next(self, worker: int, result: list[int] | None) -> int | None:
        if result is not None:
            self.results[result[0]] = bool(result[1])
        self.given.pop(worker, None)
        for other, (task, since) in list(self.given.items()):
            if time.monotonic() - since > PATIENCE_S:
                del self.given[other]
                self.waiting.append(task)
        while self.waiting:
            task = self.waiting.pop()
            if task not in self.results:
                self.given[worker] = (task, time.monotonic())
                return task
        return None

    def is_done(self) -> bool:
        return not self.waiting and not self.given


def submit(count: int) -> None:
    pool = Pool(list(range(count)))
    with shoal.connect() as bus:

        def answer(request: shoal.Message) -> None:
            bus.reply(request, pool.next(request.body["worker"], request.body["result"]))

        bus.subscribe("work/next", answer)
        while not pool.is_done():
            bus.run(timeout_s=0.05)
    print(f"{sum(pool.results.values())} primes below {count}")


def main() -> None:
    match sys.argv[1:]:
        case ["work"]:
            work()
        case ["submit", *rest]:
            submit(int(rest[0]) if rest else 1000)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()

"""Notices of the console, and of hosts that take its orders: 53xx."""

from shoal.messages.notice import error, info, warning

CONSOLE_READY = info(5301, "The console is ready at {url}.")
CONSOLE_ENDED = info(5302, "The console ends.")
LOOK_FAILED = warning(5303, "The console could not ask the domain: {why}. It tries again.")
CONSOLE_TOKENS_UNREADABLE = warning(5304, "{why}. The tokens read before stay valid.")
EXTENSION_FAILED = warning(
    5305, "The extension {name} of the console cannot be used: {why}.", "Update or remove its package."
)
CONSOLE_AUDIT_FAILED = error(
    5306,
    "The audit log {path} cannot be written: {why}. The console refuses every act.",
    "Make room on the disk, or correct the file's owner.",
)
NODE_SILENT = error(
    5310,
    "Node {name} on {host} does not answer any more.",
    "If it was not ended on purpose, look at its log and its network.",
)
NODE_TROUBLE = error(5311, "Node {name} on {host} reports trouble: {why}.")
NODE_LOST = warning(
    5312,
    "Node {name} on {host} counted {count} losses of messages since it started.",
    "Its own log names publishers and numbers. `shoal doctor` examines the network.",
)
NODE_SLOW = warning(
    5313,
    "Node {name} on {host} evicted slow members {count} times since it started.",
    "Its own log names them.",
)
NODE_BUSY = warning(
    5314,
    "Node {name} on {host} uses {load:.0%} of a core; messages may wait.",
    "Move links or subscribers to another daemon.",
)
STORE_TROUBLE = error(5320, "Store {name} is {state}.", "Its own log says why.")
STORE_DISK_LOW = warning(5321, "The disk of store {name} has only {free} GB left.", "Free some space.")
DEAD_LETTERS = warning(
    5322,
    "{messages} messages wait in the dead-letter queue {name}.",
    "Look at them on the page Queues, then move them back or purge them.",
)
BACKLOG_HIGH = warning(
    5323,
    "Queue {name} has {share:.0%} of the {limit} bytes that it may keep (backlog_max_bytes).",
    "Start more consumers, or raise the limit.",
)
NO_CONSUMER = warning(5324, "{messages} messages wait in queue {name}, and no consumer is there.")
HOST_ORDER = info(5330, "Host {host}: {order} {daemon}, ordered by {who}: {result}.")
HOST_ORDER_REFUSED = warning(
    5331,
    "Host {host} refused an order: {why}.",
    "If an operator gave it, compare the key files and the clocks of both machines.",
)

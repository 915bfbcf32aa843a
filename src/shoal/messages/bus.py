"""Notices of the bus: 21xx, and of its path to a store: 22xx."""

from shoal.messages.notice import error, info, warning

MESSAGES_LOST = warning(
    2101,
    "Lost messages {first} to {last} of member {node} (chain {chain}); they cannot be repaired. "
    "Subscriptions that may lack them: {patterns}.",
    "If this program is slow, read faster, use a narrower pattern or a selector, or raise `cache_bytes` of "
    "the publisher. A network failure or a failed router also causes loss.",
)
SEGMENTS_LOST = warning(
    2102,
    "Lost {segments} datagrams of member {node} (chain {chain}); they cannot be repaired. Subscriptions that "
    "may lack messages: {patterns}.",
    "If this program is slow, read faster, use a narrower pattern or a selector, or raise `cache_bytes` of "
    "the publisher. A network failure or a failed router also causes loss.",
)
MEMBER_FAILED = warning(
    2103,
    "Lost contact with member {node} (crash or network failure). Its last messages may be missing.",
)
UNREADABLE = warning(2104, "Member {node} sends data that cannot be read: {why}.")
DATAGRAMS_UNREADABLE = warning(2105, "Received data that cannot be read: {why}.")
NODE_ID_CHANGED = warning(
    2106, "Another node has node id {before}; this node continues as {node}. No action is needed."
)
MEMBER_SLOW = warning(
    2107,
    "Member {node} (host {host}, process {pid}) stopped reading; this program no longer waits for it.",
    "If it is alive, it may lose messages: make it read faster, or raise `slow_after_s`.",
)
QUEUE_NEARLY_FULL = warning(
    2110,
    "The queue of subscription {pattern} is nearly full: its reader is slower than the publishers. A full "
    "queue drops messages.",
    "Read faster, use a narrower pattern or a selector, or raise `queue_bytes_max`.",
)
CALLBACK_FAILED = error(2111, "A callback raised an exception on topic {topic}: {why}.")
LINES_SUPPRESSED = warning(2112, "Similar warnings suppressed: {count} ({kind}).")
CALLBACK_ERRORS_SUPPRESSED = error(2113, "Further exceptions of callback {callback} suppressed: {count}.")
CLOSED_UNDELIVERED = warning(
    2114,
    "{bus} closed before every member had every message: {undelivered}.",
    "If a member is alive, give it more time: raise `linger_s` or `stall_s` of `close`, or flush first.",
)
UNCLOSED = warning(2115, "{what} was not closed.", "Close it, or use `with`.")
DOTTED_TOPIC = warning(
    2116,
    "No program subscribes to topic {topic!r}. '/' separates levels, and dots are part of a name: did you "
    "mean {meant!r}?",
)
CLOSED_UNREACHED = warning(
    2117,
    "{bus} closed, and its messages reached no program: none answered at {address}.",
    "Start the program that listens there, or correct the address. `connect(required=True)` raises if no "
    "program answers.",
)
CLOSED_UNSTORED = warning(
    2118,
    "{bus} closed before the store had every persistent message: {lacks}.",
    "Flush before you close, which raises; or keep messages until a store has them: `connect(outbox=DIR)`.",
)
CLOSED_LOST = warning(
    2119,
    "Messages of {bus} are lost for good: members that did not take them in time: {members}.",
    "Make them read faster, or raise `slow_after_s`; with `when_slow='wait'` publishers wait for them.",
)
EXITED_UNDELIVERED = warning(
    2120,
    "{bus} was open when the program ended, and not every member had every message: {undelivered}.",
    "Close it, or use `with`: that waits for as long as members make progress.",
)
STORE_DOWN = warning(
    2201, "Store {name!r} is not responding. Unconfirmed messages are kept and will be sent again."
)
MEMORY_QUEUES_LOST = warning(
    2202,
    "The member that kept the domain's queues in memory is not responding; their messages are lost.",
    "To keep them, run a store.",
)
MEMORY_QUEUES_MOVED = warning(
    2203, "The member that kept the domain's queues in memory left. They begin again, empty."
)
BACKLOG_DROPPED = warning(
    2204,
    "Lost the {messages} oldest messages of {name!r}: its backlog reached backlog_max_bytes.",
    "Consume faster, or raise `backlog_max_bytes`.",
)
OUTBOX_NOT_NOTED = warning(
    2205,
    "Outbox {path} could not record how far the store is: {why}. It may send stored messages again; the "
    "store discards duplicates.",
)
STORE_LINK_FAILED = warning(2206, "The link to the store failed: {why}. Reconnecting.")
STORE_ANSWER_IGNORED = error(2207, "Ignored an answer of the store that cannot be understood: {why}.")
MEMORY_OWNER = info(2208, "The domain has no store; this program keeps its queues in memory.")
STORE_LINK_CLOSED = info(2209, "The link to the store is closed: {why}.")
STORE_LINK_LOSS = warning(
    2210,
    "The link lost messages between this program and the store. A new session begins: unacknowledged "
    "messages are redelivered, and unconfirmed ones are sent again.",
)
MESSAGES_IN_FLIGHT = warning(
    2211,
    "{messages} messages of {name!r} are in flight at {holder}, which has not been heard for {silent} s. "
    "They are redelivered in {left} s unless it returns.",
)
STORED_NOT_PUBLISHED = error(2212, "A message is stored but not published for live subscribers: {why}.")
OUTBOX_NOT_PUBLISHED = warning(
    2213,
    "{messages} messages of outbox {path} were not published for live subscribers: {why}. The store gets "
    "them.",
)
ID_AWAITED = warning(2214, "Waiting for {left:.0f} s: {why}.")
STORE_UNPROVEN = warning(2220, "{why} It says that it is {store}.")

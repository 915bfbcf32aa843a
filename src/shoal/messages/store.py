"""Notices of stores: 30xx."""

from shoal.messages.notice import critical, error, info, warning

STORE_OPENED = info(3001, "Opened {path}: read its last {size} bytes in {seconds:.3f} s.")
TORN_TAIL = warning(
    3002, "The store was not closed; its last {size} bytes were incomplete and are discarded."
)
STORE_STOPPED = critical(3003, "Store {path} stopped: {why}.", "Mend the cause, then start the store again.")
MEMORY_STORE_STOPPED = critical(3004, "The store in memory stopped: {why}.")
MEMORY_STORE_LOST = warning(
    3005,
    "The queues in memory end. Messages that were not acknowledged: {messages}. They are lost, unless a "
    "program has them in hand.",
    "To keep them, run a store.",
)
DISK_LOW = warning(
    3006,
    "The disk of {path} has only {free} bytes left; below {least} the store records nothing more.",
    "Free some space, or shorten the retention.",
)
RECORDING_STOPPED = error(3007, "Recording stopped: {why}.", "Free some space, or shorten the retention.")
RECORDING_RESUMED = warning(3008, "The disk has room again; recording goes on.")
ARRIVALS_NOT_RECORDED = error(3009, "Messages that had arrived were not recorded: {why}.")
CORRUPT = error(3010, "Damaged data: {why}.", "Run `shoal store verify` on the directory.")
RESTORED_OR_CUT = error(
    3011,
    "The log ends before data that was durable: it was restored from a copy, or lost its end. The store "
    "takes a new incarnation, and readers begin again.",
)
PROJECTION_BEHIND = warning(3012, "The projection is behind: {why}. The next start takes longer.")
NO_INDEX = warning(3013, "Cannot write an index: {why}. Reading by topic is slower until it can be written.")
NOT_COMPACTED = warning(3014, "Cannot compact segment {segment}: {why}.")
COMPACTED = info(3015, "Compacted segment {segment}; removed {topics} topics.")
TRIMMED = info(3016, "History begins at offset {floor} now; removed {segments} segments.")
STAGINGS_EXPIRED = warning(3017, "Discarded {stagings} stagings that were not committed in time.")
PROJECTION_IN_MEMORY = warning(3018, "Cannot write {path}: {why}. The next start takes longer.")
LOSSES_MERGED = error(
    3019,
    "{losses} loss records wait for room in the log; of further losses the store notes only the number of "
    "messages, not the publisher.",
)
SESSION_ENDED = warning(3020, "The session of {session} is over: {why}. Its messages are redelivered.")
ANSWER_NOT_SENT = error(3021, "Cannot send an answer to session {session}: {why}.")
SERVING_FAILED = error(3022, "The store cannot serve any more: {why}.")
REQUEST_UNREADABLE = warning(3023, "Ignored a request of node {node} that is not a mapping.")
CLOSED_UNCLEAN = warning(3024, "The store closed before it had recorded everything: {why}.")
BACKLOG_FULL = warning(3025, "{name} is full; dropped its {messages} oldest messages.")
READER_EXPIRED = warning(3026, "{name} was not used for {after_s:g} s and is deleted.")
PRESENCE_FAILED = error(3027, "The store can no longer announce itself: {why}.")
CLOSED_BEFORE_PUBLISHED = error(
    3030, "The connection closed before all commits were published; the next start publishes the rest."
)
ROW_NOT_PUBLISHED = error(3031, "The row at offset {offset} is stored but not published: {why}.")
REPUBLISH_INCOMPLETE = error(
    3032, "Not all messages of publisher {publisher:016x} were published again: {why}."
)
MAINTENANCE_FAILED = warning(3033, "Maintenance of the store failed: {why}. It tries again.")
STATUS_NOT_WRITTEN = warning(3034, "Cannot write the status of the store: {why}.")
HISTORY_OPEN = warning(
    3035,
    "History is served at {host} to every host that reaches it, for reading and writing.",
    "Give the store --tokens FILE (shoal token new).",
)
ENDPOINT_NOT_WRITTEN = warning(
    3036, "History is served at {endpoint}, but the address cannot be written: {why}."
)
REQUEST_FAILED = error(3037, "The request {request} of session {session} failed: {why}.")
DOOR_OPEN = warning(
    3040,
    "The store asks for no token at {url}: every host that reaches it can read, write and remove.",
    "Give it --tokens FILE (shoal token new) or --listen 127.0.0.1:0; in a program, `tokens` or "
    "`store_listen` of `connect`.",
)
DOOR_IN_CLEAR = warning(
    3041,
    "Connections to {url} are not encrypted: messages and names travel in clear, and can be changed on the "
    "way. Tokens do not travel.",
    "Give the store --tls; in a program, `store_tls` of `connect`.",
)
HISTORY_IN_CLEAR = warning(
    3042,
    "History at {address} is not encrypted: tokens and rows travel in clear.",
    "Give the store --tls; in a program, `store_tls` of `connect`.",
)
TOKENS_UNREADABLE = error(3043, "{why}. The store goes on with the tokens that it read before.")
RIVAL_UNPROVEN = warning(
    3044,
    "A member says that the store {name} keeps the same destinations. It proves nothing, and this store goes "
    "on.",
    "Stop the other store, or find out which member says so.",
)
ACCESS_DENIED = warning(
    3045,
    "Access denied: {why}.",
    "If it should be allowed, add a rule (shoal access explain shows the rules).",
)
RULES_UNREADABLE = error(3046, "{why}. The store goes on with the access rules that it read before.")
SCATTERED = warning(
    3047,
    "The acknowledgements of {name} leave {runs} gaps. Consumers get the oldest messages only.",
    "Consume, move or purge its oldest messages: a consumer's selector may leave them out.",
)
NOT_FORWARDED = error(
    3048,
    "The next store of rule {rule} never takes {messages} messages: {why}. They are in the queue "
    "dead-letters of this store.",
    "Mend the cause, then move them back (shoal queue move).",
)
FORWARDING_STOPPED = warning(
    3049,
    "Rule {rule} forwards nothing: {why}. Messages wait in this store.",
    "Look at the rule: shoal store forward status.",
)
GROUP_FOUNDED = info(3050, "Founded group {group} with {members} members.")
ELECTED = info(3051, "Elected to own group {group} in term {term}; the store is open after {seconds:.3f} s.")
DEPOSED = warning(3052, "Another store owns group {group} now; this one follows.")
NOT_A_MEMBER = warning(
    3053,
    "Group {group} has {members} members, and this store is none of them; it waits.",
    "Let it join (shoal store group add). If it had a directory before, start it with that.",
)
MEMBERS_UNPROVEN = warning(
    3054,
    "Members of group {group} prove nothing at {url}: every host that reaches it can pose as a member.",
    "Give all members the same --group-token-file.",
)
COPIED = info(3055, "Copied from another member what was missing: {bytes} bytes, up to entry {entry}.")
NOT_COPIED = warning(
    3056,
    "What is missing could not be copied from another member: {why}. This store tries again.",
    "Look at the disk of this store, and at its connection to the members.",
)
MEMBERS_CHANGED = info(
    3057, "Group {group} has {voters} members that vote, and {learners} that copy the log."
)
SEGMENT_DAMAGED = error(
    3058,
    "Segment {segment} of {path} is damaged; another member is asked for it.",
    "Look for errors of the disk. If they repeat, replace it (shoal store group add --replace).",
)

"""Notices of exceptions: 10xx. Each class of `shoal.errors` carries the id of one as `error.id`."""

from shoal.messages.notice import error

SHOAL = error(1000, "Shoal raised an error.", "Read its text: it says what happened and what to do.")
CONFIG = error(1001, "An option cannot work.", "Correct the option that the text names.")
INVALID_TOPIC = error(1002, "A text is not a valid topic or pattern.", "See the rules for topics.")
MESSAGE_TOO_LONG = error(1003, "A message is longer than its bound.", "Send less, or send it in parts.")
INVALID_ARGUMENT = error(
    1023, "An argument of a JMS call cannot be used.", "The error names what would be accepted."
)
NUMBER_FORMAT = error(1004, "A text was read as a number and is not one.")
JMS = error(1010, "A JMS call failed.")
INVALID_SELECTOR = error(
    1011, "A text is not a valid selector or correlation filter.", "The caret shows where it is wrong."
)
MESSAGE_FORMAT = error(1012, "A message cannot be read, or not as the type that was asked for.")
ILLEGAL_STATE = error(1013, "The call is not possible in the present state, such as on a closed session.")
INVALID_CLIENT_ID = error(1014, "A client id is in use, or not valid.", "Use a client id of your own.")
INVALID_DESTINATION = error(
    1015, "A queue, topic or subscription does not exist, or cannot be used like this."
)
JMS_SECURITY = error(1016, "The user name or password was refused.", "Check the credentials.")
MESSAGE_EOF = error(1017, "The end of a BytesMessage or StreamMessage was reached.")
MESSAGE_NOT_READABLE = error(1018, "A message that is being written cannot be read.", "Call `reset` first.")
MESSAGE_NOT_WRITEABLE = error(
    1019, "A received message cannot be changed.", "Call `clear_body` or `clear_properties` first."
)
RESOURCE_ALLOCATION = error(
    1020,
    "The call needs a resource that is not available, such as a store.",
    "Provide the resource, then retry.",
)
TRANSACTION_IN_PROGRESS = error(
    1021, "The call is not possible within a transaction.", "Commit or roll back first."
)
TRANSACTION_ROLLED_BACK = error(
    1022, "A transaction was rolled back: nothing of it was done.", "Do the transaction again."
)
LINK = error(1030, "The network cannot be used.", "Check the interface, the address and the port.")
LINK_REFUSED = error(
    1031,
    "The other end of a link refused this node, or is not trusted.",
    "Check versions, keys and certificates.",
)
CLOSED = error(1032, "This program closed the connection.", "Connect again.")
FORKED = error(1033, "The connection was made before a fork.", "Connect in the process that uses it.")
FULL = error(
    1034,
    "Publishing would block: members do not read fast enough.",
    "Publish more slowly, read faster, or choose another policy with `when_full`.",
)
FLUSH = error(
    1035,
    "A flush was not confirmed: members or the store lack messages.",
    "`silent`, `lost_by` and `unstored` name them. Give it more time, or look at these members.",
)
NO_REPLY = error(1036, "No answer to a request in time.", "Raise `timeout_s`, or look at the responder.")
NO_RESPONDERS = error(1037, "No member subscribes to the topic of a request.", "Start the responder.")
REMOTE = error(
    1038, "The callback that answers a request raised an exception.", "Look at the responder's log."
)
STORE = error(1040, "A store cannot do what it was asked.")
STORE_REFUSED = error(1041, "A store does not accept the request.")
STORE_LOCKED = error(1042, "Another process has the store's directory.", "Stop it, or use another directory.")
STORE_CORRUPT = error(
    1043, "Durable data is damaged.", "Run `shoal store verify`, then restore a backup or another disk."
)
STORE_FULL = error(
    1044,
    "The disk has no room for more messages.",
    "Free some space, or shorten the retention; the store continues then.",
)
BACKLOG = error(
    1045,
    "A queue or a durable subscription has reached `backlog_max_bytes`.",
    "Consume faster, or raise the bound.",
)
STORE_FAILED = error(
    1046,
    "An earlier write or sync failed; the state of the disk is unknown.",
    "Check the disk, restart the store.",
)
TRIMMED = error(1047, "Retention removed the range that was asked for.", "Start at `floor` or later.")
NO_STORE = error(1048, "The domain has no store.", "Start one: `shoal store --data DIR`.")
STORE_UNAVAILABLE = error(
    1049,
    "No store answers, or not in time.",
    "Messages may be stored nevertheless. Check the address and the store, then retry.",
)
IN_USE = error(1050, "Another client uses this client id, durable subscription or queue.")
DIFFERS = error(1051, "A subscription of that name has another topic or selector.", "Use another name.")
LEASE = error(1052, "The lease of a message ended; the store gives it to another consumer.")
STORE_DENIED = error(
    1053,
    "A token is missing or wrong, or the object belongs to another principal.",
    "Give the program its token (token_file, SHOAL_TOKEN_FILE).",
)
HISTORY = error(1060, "A store refused a query of its history.")
DATA_LOSS = error(
    1062,
    "A query asks for history that no longer exists.",
    "To continue without it, set failOnDataLoss=false.",
)
PROCESS_FAILED = error(1070, "A child process did not start, failed, or did not end in time.")

"""Notices of `shoal.spark`: 60xx."""

from shoal.messages.notice import warning

LIVE_LOST = warning(6001, "mode=live: lost {messages} messages of an unfinished micro-batch.")
LIVE_AT_MOST_ONCE = warning(6002, "mode=live reads at most once.", "To lose nothing, read from a store.")
RESERVATION_LOST = warning(6003, "{what}; continuing without these messages (failOnDataLoss=false).")
QUEUE_CHANGED = warning(6004, "{what}; continuing with what its queue has (failOnDataLoss=false).")
HISTORY_MISSING = warning(6005, "{what}; continuing with what the store has (failOnDataLoss=false).")
STORE_SILENT = warning(6006, "The store at {store} is not responding; trying again for {timeout_s:g} s.")
NOT_TIDIED = warning(6007, "The rows are committed, but the store did not delete the stagings: {why}.")

//! What whoever drives TCP links tells them, and what they tell.

use std::time::Duration;

use shoal_norm::NodeId;

use crate::hub::Traffic;

/// Names a connection; whoever opens it chooses the name.
pub type ConnectionId = u64;

/// The other side's heartbeats are never taken to be further apart than this.
const HEARTBEAT_MAX: Duration = Duration::from_secs(3600);

/// What links can be told.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// The domain by name; nobody of another one is let in.
    pub domain: String,
    /// The same as a number.
    pub domain_number: u64,
    /// What our program is called when it refuses another one, or is refused.
    pub software: String,
    /// How often to say that we are here.
    pub heartbeat: Duration,
    /// After how many missed ones a connection is taken for dead.
    pub missed_heartbeats_max: u32,
    /// How long a session waits for another connection when its own is gone.
    pub resume: Duration,
    /// How long a peer that takes nothing may hold publishers back while others have room.
    pub patience: Duration,
    /// Bytes of a lane that may be on their way to a peer, or wait there for a reader.
    pub window_bytes: usize,
    /// The most peers.
    pub peers_max: usize,
}

impl TcpConfig {
    /// How long somebody may be silent who says that he is there so often.
    pub(super) fn silence(&self, heartbeat_ms: u32) -> Duration {
        let theirs = Duration::from_millis(heartbeat_ms.max(1).into()).min(HEARTBEAT_MAX);
        theirs.saturating_mul(self.missed_heartbeats_max.max(1))
    }
}

/// Who opened a connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// We did. There was this publisher the last time, if there was one.
    Dialled(Option<u64>),
    /// Somebody else.
    Accepted,
    /// Somebody else, and the owner decides whether it is let in.
    Guest,
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// The peer said goodbye.
    Left,
    /// We did.
    Closed,
    /// It broke: why. Another one may go on with the session.
    Broken(String),
    /// We are refused, and will be again: why.
    Refused(String),
    /// We refused: why.
    Turned(String),
    /// There is another one with this publisher.
    Duplicate(u64),
    /// We are refused for a session with this publisher that we do not have. The next connection insists.
    Stale(u64),
    /// We are to go to the addresses that this names.
    Elsewhere(String),
}

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpNews {
    /// Whoever is there says who it is, and the owner has to decide: [`TcpLinks::admit`](super::TcpLinks::admit).
    Asks {
        /// Which.
        connection: ConnectionId,
        /// Who publishes there.
        publisher: u64,
        /// And where.
        node: NodeId,
    },
    /// It carries messages.
    Up {
        /// Which.
        connection: ConnectionId,
        /// Who publishes there.
        publisher: u64,
        /// And where.
        node: NodeId,
        /// Nothing was missed since the connection before.
        resumed: bool,
    },
    /// It carries messages, and the other end asks us to go elsewhere.
    Redirected {
        /// Which.
        connection: ConnectionId,
        /// The addresses, as the other end wrote them.
        places: String,
    },
    /// Rules deny the program at one end something. Told once for each reason.
    Denied {
        /// Which.
        connection: ConnectionId,
        /// Rules of this end deny it to the other; otherwise those of the other end to us.
        ours: bool,
        /// What, to whom, by which rule.
        why: String,
    },
    /// It is over.
    Over {
        /// Which.
        connection: ConnectionId,
        /// Whose session it carried, if it carried one.
        peer: Option<(u64, NodeId)>,
        /// Why.
        why: Over,
    },
}

impl TcpNews {
    /// Which connection it is about.
    pub fn connection(&self) -> ConnectionId {
        match self {
            TcpNews::Asks { connection, .. }
            | TcpNews::Up { connection, .. }
            | TcpNews::Redirected { connection, .. }
            | TcpNews::Denied { connection, .. }
            | TcpNews::Over { connection, .. } => *connection,
        }
    }
}

/// A session as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkState {
    /// Who publishes there.
    pub publisher: u64,
    /// And where.
    pub node: NodeId,
    /// The connection that carries it, if one does.
    pub connection: Option<ConnectionId>,
    /// How long it takes to hear an answer, once one was heard.
    pub round_trip: Option<Duration>,
    /// Bytes written and read, in all and in a second.
    pub bytes_sent: u64,
    /// Bytes read, in all.
    pub bytes_received: u64,
    /// Messages that went over it.
    pub traffic: Traffic,
    /// Bytes written in a second.
    pub send_rate: f64,
    /// Bytes read in a second.
    pub receive_rate: f64,
    /// Bytes that wait to be sent.
    pub waiting: u64,
    /// Bytes that were taken to be sent, and the peer has not acknowledged.
    pub lacking: u64,
    /// Messages and subscriptions of the peer that rules denied.
    pub denied: u64,
}

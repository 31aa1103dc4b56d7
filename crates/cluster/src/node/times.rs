//! The waiting times of a node.

use std::time::Duration;

/// The times for which operations wait for other nodes, and after which they ask again.
///
/// No promise may depend on these times. The simulator draws them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// The time for which an operation waits for an answer before it continues with what it has,
    /// or asks again. It doubles.
    pub patience: Duration,
    /// The longest such time.
    pub longest_patience: Duration,
    /// The time limit of a whole operation.
    pub operation: Duration,
    /// The time for which suspected nodes are awaited if there is no quorum without them.
    pub absence: Duration,
    /// The time for which failed replicas are asked again in a round if there is no quorum without
    /// them.
    pub retries: Duration,
    /// The first pause before a retry. It doubles.
    pub first_retry: Duration,
    /// The longest pause before a retry.
    pub longest_retry: Duration,
    /// The time limit of a call to another node.
    pub call: Duration,
    /// The delay of a request to a replica that a quorum does not need. Near replicas mostly answer
    /// within this time, also under load.
    pub defer: Duration,
    /// The shortest time for which a read waits for the value once the other replicas have
    /// answered. Then it asks all replicas for the value.
    pub least_hedge: Duration,
    /// The longest first pause of a contended operation. It doubles with each attempt.
    pub first_pause: Duration,
    /// The longest pause of a contended operation.
    pub longest_pause: Duration,
}

impl Times {
    /// The times of the product.
    pub const USUAL: Times = Times {
        patience: Duration::from_millis(250),
        longest_patience: Duration::from_secs(1),
        operation: Duration::from_secs(20),
        absence: Duration::from_secs(3),
        retries: Duration::from_secs(2),
        first_retry: Duration::from_millis(20),
        longest_retry: Duration::from_millis(500),
        call: Duration::from_secs(10),
        defer: Duration::from_millis(15),
        least_hedge: Duration::from_millis(20),
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(100),
    };

    /// Returns times that `draw` changes. It gets the usual time, and returns another one.
    pub fn drawn(mut draw: impl FnMut(Duration) -> Duration) -> Times {
        // A caller that waits for no time at all asks again and again in the same moment.
        let mut time = |usual: Duration| draw(usual).max(Duration::from_millis(1));
        let usual = Times::USUAL;
        Times {
            patience: time(usual.patience),
            longest_patience: time(usual.longest_patience),
            operation: time(usual.operation),
            absence: time(usual.absence),
            retries: time(usual.retries),
            first_retry: time(usual.first_retry),
            longest_retry: time(usual.longest_retry),
            call: time(usual.call),
            defer: time(usual.defer),
            least_hedge: time(usual.least_hedge),
            first_pause: time(usual.first_pause),
            longest_pause: time(usual.longest_pause),
        }
    }
}

"""The capacity model of a node: what a message costs, what a node can carry, how long a message waits.

The model is the one of the FioranoMQ study: a message costs B = t_rcv + n·t_fltr + r·t_tx, where n filters
are installed and r copies leave the node. Plain Python with no dependency: `shoal.spark.pipelines.capacity`
fits the model to measurements on Spark, `Estimator` fits it while a node runs.
"""

from shoal.capacity.estimator import Estimate, Estimator
from shoal.capacity.fit import Fit, Moments
from shoal.capacity.model import Model, Workload
from shoal.capacity.waiting import Replication, Waiting

__all__ = ["Estimate", "Estimator", "Fit", "Model", "Moments", "Replication", "Waiting", "Workload"]

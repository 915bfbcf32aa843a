"""What people do with recorded messages, each as one function: archive, replay, stats, audit."""

"""The outbox of background work: jobs, messages to the worker, leases. It stands below the services, which queue."""

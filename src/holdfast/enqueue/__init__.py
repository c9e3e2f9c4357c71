"""From a call to `Jobs.insert`: options, the job that is made, batches."""

-- The columns of a `FlowInfo`, from a row `flow`.
flow.id::text, flow.name, flow.state, flow.total, flow.open, flow.failed, flow.epoch, flow.created_at,
    flow.unique_key, flow.tags, flow.parent::text, flow.reason, flow.finished_at, flow.expires_at

f.id, f.name, f.state, f.total, f.open, f.failed, f.epoch, f.created_at, f.unique_key, f.tags,
    f.parent, f.reason, f.finished_at, f.expires_at

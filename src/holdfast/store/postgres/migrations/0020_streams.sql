-- Frames of streams: a row for those that were written together. `last` numbers the last frame of a row
-- within its attempt, `since` where this try of the section began. Jobs with streams have the tie 32.
create table {{schema}}.frames (
    job_id uuid not null,
    stream text collate "C" not null,
    fence bigint not null,
    last int not null,
    number int not null,
    since int not null,
    again boolean not null,
    whole boolean not null,
    closes boolean not null,
    keep text not null,
    section text collate "C" not null,
    at timestamptz not null,
    data text not null,
    primary key (job_id, stream, fence, last)
);

-- Those of live streams: nobody misses them after a crash, so they are not logged.
create unlogged table {{schema}}.live_frames (like {{schema}}.frames including all);
create index live_frames_at on {{schema}}.live_frames (at);

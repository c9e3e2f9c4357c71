-- Frames of streams: a row for those that were written together. `last` numbers the last frame of a row
-- within its attempt, `since` where this try of the section began. Jobs with streams have the tie 32.
create table holdfast_frames (
    job_id text not null,
    stream text not null,
    fence integer not null,
    last integer not null,
    number integer not null,
    section text not null,
    since integer not null,
    again integer not null,
    whole integer not null,
    closes integer not null,
    keep text not null,
    at integer not null,
    data text not null,
    primary key (job_id, stream, fence, last)
) without rowid;

create index holdfast_frames_live on holdfast_frames (at) where keep = 'live';

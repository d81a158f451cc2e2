//! One shard, and a few: what it says and does, on the simulated world or straight.

mod asks;
mod clock;
mod crowded_login;
mod ended;
mod favour;
mod flood;
mod flush;
mod followers;
mod gauges;
mod jobs;
mod knobs;
mod left_early;
mod letters;
mod limits;
mod observers;
mod promises;
mod quotas;
mod removed;
mod retention;
mod rosters_agree;
mod scripts;
mod throttle;
mod unreadable;
mod urgent;
mod waiting_order;
mod without;

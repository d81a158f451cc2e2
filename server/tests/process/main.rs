//! The program as processes: servers, their clients over sockets, and the program's commands. One
//! binary, since most of these tests wait and can do so concurrently.

mod bench;
mod certificates;
mod channels;
mod clock;
mod counted;
mod doctor;
mod faults;
mod formats;
mod invites;
mod life;
mod limits;
mod load;
mod load_http;
mod memory;
mod monitoring;
mod new_folder;
mod operator;
mod partitions;
mod ports;
mod private;
mod profile;
mod remote;
mod removed;
mod reports;
mod restored;
mod room;
mod rooms;
mod sar;
mod scripts;
mod stalls;
mod supervised;
mod support;
mod top;
mod trace;
mod virtual_hosts;

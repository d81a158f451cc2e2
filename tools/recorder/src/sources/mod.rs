//! The sources of numbers: one file per source, its fields declared once in the table at its top.
//!
//! All of these read `/proc` and `/sys` (proc(5); Documentation/filesystems/proc.rst,
//! admin-guide/iostats.rst, accounting/psi.rst of the kernel) and are independent of each other.
//! Figures that the kernel does not provide are absent. A program adds its own by implementing
//! [`Source`].

mod conntrack;
mod disk;
mod files;
mod ip;
mod memory;
mod nic;
mod paging;
mod pressure;
mod process;
mod stat;
mod tcp;
mod text;
mod thread;
mod udp;

use std::fs;
use std::path::{Path, PathBuf};

use crate::schema::Origin;
use crate::table::Source;

/// The folders of the kernel's files; a test has its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Roots {
    /// `/proc`
    pub proc: PathBuf,
    /// `/sys`
    pub sys: PathBuf,
    /// The process whose threads, memory and descriptors are recorded.
    pub pid: u32,
}

impl Roots {
    /// Those of this host, and a process.
    pub fn of(pid: u32) -> Roots {
        Roots { proc: "/proc".into(), sys: "/sys".into(), pid }
    }

    fn own(&self, file: &str) -> PathBuf {
        self.proc.join(self.pid.to_string()).join(file)
    }

    /// A file of the process's network namespace.
    fn net(&self, file: &str) -> PathBuf {
        self.own("net").join(file)
    }
}

/// All sources of a host and of a process on it.
pub fn all(roots: &Roots) -> Vec<Box<dyn Source>> {
    vec![
        Box::new(stat::Stat::new(roots)),
        Box::new(pressure::Pressure::new(roots)),
        Box::new(tcp::Tcp::new(roots)),
        Box::new(conntrack::Conntrack::new(roots)),
        Box::new(udp::Udp::new(roots)),
        Box::new(ip::Ip::new(roots)),
        Box::new(nic::Nic::new(roots)),
        Box::new(memory::Memory::new(roots)),
        Box::new(paging::Paging::new(roots)),
        Box::new(disk::Disk::new(roots)),
        Box::new(files::Files::new(roots)),
        Box::new(process::Process::new(roots)),
        Box::new(thread::Thread::new(roots)),
    ]
}

/// The origin of a recording: host and process.
pub fn origin(roots: &Roots, interval_ms: u64, program: &str) -> Origin {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let kernel = roots.proc.join("sys/kernel");
    let stat = read(&roots.proc.join("stat"));
    let cores = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count() as u32;
    Origin {
        host: read(&kernel.join("hostname")),
        kernel: read(&kernel.join("osrelease")),
        cores,
        boot: read(&kernel.join("random/boot_id")),
        pid: roots.pid,
        interval_ms,
        program: program.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Sampler;
    use crate::table::ABSENT;

    /// A host whose kernel provides nothing at all.
    #[test]
    fn what_the_kernel_does_not_tell_is_absent() {
        let folder = tempfile::tempdir().expect("a folder");
        let roots = Roots { proc: folder.path().into(), sys: folder.path().into(), pid: 1 };
        let mut sampler = Sampler::new(origin(&roots, 1000, "test"), all(&roots));
        sampler.sample(1, 2);
        assert_eq!(&sampler.values()[..2], [1, 2]);
        assert!(sampler.values()[2..].iter().all(|value| *value == ABSENT), "{:?}", sampler.values());
    }

    /// Documentation/filesystems/proc.rst: this host provides everything that is not optional.
    #[test]
    fn this_host_tells_of_itself() {
        let roots = Roots::of(std::process::id());
        let mut sampler = Sampler::new(origin(&roots, 1000, "test"), all(&roots));
        sampler.sample(1, 2);
        let sample = sampler.last();
        let schema = sample.shape.schema();
        for module in ["cpu", "core", "system", "tcp", "ip", "nic", "memory", "paging", "files", "process", "thread"] {
            let at = schema.module(module).expect(module);
            assert!(!sample.shape.rows()[at].is_empty(), "{module} has no rows");
            let first = sample.shape.row_at(at, 0);
            let told = (0..).zip(schema.modules[at].recorded());
            let absent: Vec<_> =
                told.filter(|(slot, _)| sample.values[first + slot] == ABSENT).map(|(_, (_, f))| &f.name).collect();
            // Kernels before 6.2 do not count a process's descriptors.
            assert!(absent.iter().all(|name| *name == "own"), "{module}: {absent:?}");
        }
        assert!(schema.origin.cores > 0 && !schema.origin.boot.is_empty(), "{:?}", schema.origin);
    }
}

//! What the system says of this process, by the names that every exporter for Prometheus has.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

use super::super::descriptors;

/// A figure of the process.
pub(in crate::server) struct Figure {
    pub(in crate::server) name: &'static str,
    pub(in crate::server) help: &'static str,
    pub(in crate::server) value: f64,
    /// Whether it only rises.
    pub(in crate::server) is_counter: bool,
}

/// Bytes of this process's memory, by a key of `/proc/self/status` with its colon.
pub(in crate::server) fn memory(key: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Everything but what ZooKeeper has a name of its own for.
#[expect(clippy::cast_precision_loss, reason = "seconds, and bytes of memory")]
pub(in crate::server) fn figures(started: f64) -> Vec<Figure> {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let bytes = |key| memory(key).map(|bytes| bytes as f64);
    let gauge = |name, help, value: Option<f64>| {
        value.map(|value| Figure { name, help, value, is_counter: false })
    };
    let figures = [
        Some(Figure {
            name: "process_cpu_seconds_total",
            help: "CPU time",
            value: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            is_counter: true,
        }),
        gauge(
            "process_start_time_seconds",
            "start of the process, in seconds since 1970",
            Some(started),
        ),
        gauge("process_open_fds", "files and sockets", Some(descriptors::open() as f64)),
        gauge(
            "process_max_fds",
            "limit of open files and sockets",
            Some(descriptors::limit() as f64),
        ),
        gauge("process_virtual_memory_bytes", "address space", bytes("VmSize:")),
        gauge("process_resident_memory_bytes", "memory", bytes("VmRSS:")),
    ];
    figures.into_iter().flatten().collect()
}

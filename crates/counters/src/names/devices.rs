//! Devices.

use crate::Counter;

register! { DEVICES, Counter:
    DEVICE_READS = "pagewell_device_reads_total", "Read requests made to files and block devices.";
    DEVICE_READ_BYTES = "pagewell_device_read_bytes_total",
        "Bytes read from files and block devices.";
    DEVICE_READ_ERRORS = "pagewell_device_read_errors_total",
        "Read requests to files and block devices that failed.";
    DEVICE_WRITES = "pagewell_device_writes_total",
        "Write requests made to files and block devices.";
    DEVICE_WRITE_BYTES = "pagewell_device_write_bytes_total",
        "Bytes written to files and block devices.";
    DEVICE_WRITE_ERRORS = "pagewell_device_write_errors_total",
        "Write requests to files and block devices that failed.";
    DEVICE_DURABLE_WRITES = "pagewell_device_durable_writes_total",
        "Write requests to files and block devices that had to be durable without a flush.";
    DEVICE_DURABLE_FALLBACKS = "pagewell_device_durable_fallbacks_total",
        "Durable writes made as a write and a flush because the system has no durable write.";
    DEVICE_FLUSHES = "pagewell_device_flushes_total",
        "Times that files and block devices were told to make writes durable.";
    DEVICE_FLUSH_ERRORS = "pagewell_device_flush_errors_total",
        "Flushes of files and block devices that failed, so that bytes written before may be lost.";
    DEVICE_IN_USE = "pagewell_device_in_use_total",
        "Devices not opened for writing because another program uses them.";
    DEVICE_LOCKS_MISSING = "pagewell_device_locks_missing_total",
        "Files opened for writing where the system has no locks to keep other programs away.";
    DEVICE_REFUSED = "pagewell_device_refused_total",
        "Requests to files and block devices refused because they were misaligned, out of bounds \
         or not allowed.";
    DEVICE_TRUNCATED = "pagewell_device_truncated_total",
        "Read requests that met the end of a file which had become shorter.";
    DEVICE_CONTINUED = "pagewell_device_continued_total",
        "Times that a transfer or a flush was cut short by the system and went on.";
    DEVICE_BUFFERED_FALLBACKS = "pagewell_device_buffered_fallbacks_total",
        "Files and block devices used through the kernel's page cache because they cannot be used \
         directly.";
    DEVICE_TAIL_WRITES = "pagewell_device_tail_writes_total",
        "Writes of the partial last block of a file, made through the kernel's page cache.";
    DEVICE_RING_FALLBACKS = "pagewell_device_ring_fallbacks_total",
        "Devices served by threads because the kernel gave no ring (io_uring).";
    DEVICE_RING_STALLS = "pagewell_device_ring_stalls_total",
        "Times that the kernel did not take requests from a ring (io_uring) at once.";
    DEVICE_RING_QUEUED = "pagewell_device_ring_queued_total",
        "Requests that waited because a ring (io_uring) had as many under way as it may have.";
    DEVICE_FIXED_TRANSFERS = "pagewell_device_fixed_transfers_total",
        "Transfers from or to memory that the kernel had prepared for a ring (io_uring).";
    DEVICE_MEMORY_FALLBACKS = "pagewell_device_memory_fallbacks_total",
        "Times that the kernel did not prepare memory for a ring (io_uring), so that its \
         transfers cost more.";
    DEVICE_WORKERS_REFUSED = "pagewell_device_workers_refused_total",
        "Times that the system did not give a device one more thread.";
    DEVICE_COMPLETION_PANICS = "pagewell_device_completion_panics_total",
        "Ends of device requests that met a defect of the program.";
}

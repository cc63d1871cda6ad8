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
    DEVICE_FLUSHES = "pagewell_device_flushes_total",
        "Times that files and block devices were told to make writes durable.";
    DEVICE_FLUSH_ERRORS = "pagewell_device_flush_errors_total",
        "Flushes of files and block devices that failed, so that bytes written before may be lost.";
    DEVICE_FIXED_TRANSFERS = "pagewell_device_fixed_transfers_total",
        "Transfers from or to memory that the kernel had prepared for a ring (io_uring).";
}

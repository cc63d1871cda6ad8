//! The page pagewell-sources(7): what a SOURCE and a LOCATION are.

/// The page, in the language of man(7).
pub(super) const PAGE: &str = r#".TH pagewell-sources 7 "" "pagewell"
.SH NAME
pagewell\-sources \- what pagewell reads from and writes to
.SH SYNOPSIS
.nf
\fISOURCE\fR
\fISOURCE\fB::/\fIPATH\fR
.fi
.SH DESCRIPTION
Every command of \fBpagewell\fR(1) takes sources. \fBserve\fR and \fBmount\fR take whole ones; for
\fBls\fR, \fBcat\fR, \fBcp\fR, \fBstat\fR and \fBsum\fR a place inside one is written behind
\fB::/\fR. Without it the root is meant, or the one file of an \fBimage:\fR source; a plain local
file that is no ISO 9660 image is read as it is. \fBcat\fR and \fBsum\fR take \fB\-\fR for standard
input.
.SH SOURCES
.TP
\fIPATH\fR
A directory, an ISO 9660 image (with Rock Ridge or Joliet) or a disk image, recognised by content.
.TP
\fBdir:\fIPATH\fR
A directory.
.TP
\fBiso:\fIPATH\fR
An ISO 9660 image, to be read.
.TP
\fBimage:\fIPATH\fR
Any file or block device, as one file that is named after it and keeps its length.
.TP
\fBram:\fISIZE\fR
A file system in memory, empty at first and gone with the process. \fISIZE\fR is
a number such as 1.5, with k, m, g or t for units of 1024, 1024^2, 1024^3 and 1024^4 bytes.
.TP
\fBstripe:\fICHUNK\fB:\fISOURCE\fB,\fISOURCE\fR...
Files or devices side by side: chunks are dealt to them in turn.
.TP
\fBmirror:\fISOURCE\fB,\fISOURCE\fR...
Files or devices with the same bytes; see \fBpagewell\-mirror\fR(1).
.TP
\fBmodel:\fINAME\fR[\fB,speed=\fIX\fR]\fB:\fISOURCE\fR
A simulated \fBdvd\fR, \fBhdd\-7200\fR, \fBfc\-15k\fR, \fBssd\fR or \fBnvme\fR over real bytes.
.TP
\fBnfs://\fIHOST\fR[\fB:\fIPORT\fR]\fB/\fIEXPORT\fR[\fB?\fIOPTION\fR[\fB&\fIOPTION\fR]...]
An export of another server of NFS version 3. The host is a name or an address, one of IPv6 in
brackets; \fB%20\fR stands for a space. Quote it: \fB?\fR and \fB&\fR mean something to a shell.
.PP
\fBstripe:\fR, \fBmirror:\fR and \fBmodel:\fR hold an ISO 9660 image or a disk image, recognised by
content; \fBiso:\fR or \fBimage:\fR in front says which. Their own sources are files, block devices,
\fBimage:\fIPATH\fR, \fBram:\fISIZE\fR (zeros) or, in parentheses, further ones:
\fBmirror:(stripe:64k:a,b),(stripe:64k:c,d)\fR.
.SH "OPTIONS OF nfs://"
.TP
\fBport=\fIN\fR, \fBmountport=\fIN\fR
The ports of NFS and of MOUNT, where the port mapper of the server is not to be asked.
.TP
\fBrsize=\fISIZE\fR, \fBwsize=\fISIZE\fR
Bytes of one READ and one WRITE, 1k to 1m. Default: as many as the server takes.
.TP
\fBreadahead=\fIN\fR|\fBauto\fR
Blocks of \fBrsize\fR that are fetched ahead of a reader. Default: \fBauto\fR.
.TP
\fBconnections=\fIN\fR
TCP connections, 1 to 16. Default: 4.
.TP
\fBhard\fR, \fBsoft\fR
Wait for a server that is gone (default), or fail after \fBretrans=\fIN\fR attempts (default 3).
.TP
\fBtimeo=\fISECONDS\fR
After this time without an answer calls are sent again. Default: 60.
.TP
\fBsync\fR, \fBasync\fR
Writes are on stable storage when they return, or when they are committed (default).
.TP
\fBro\fR, \fBrw\fR
Change nothing, or what the server lets (default).
.TP
\fBacregmin=\fR, \fBacregmax=\fR, \fBacdirmin=\fR, \fBacdirmax=\fR, \fBactimeo=\fR, \fBnoac\fR
How long attributes are believed, in seconds: 3 to 60 for files, 30 to 60 for directories;
\fBactimeo=\fR sets all four, \fBnoac\fR none.
.TP
\fBcto\fR, \fBnocto\fR
Ask for attributes at each open (default), or believe them.
.TP
\fBresvport\fR, \fBnoresvport\fR
Call from a reserved port, or from any. Default: a reserved one if the process may.
.TP
\fBdelay=\fIMILLISECONDS\fR
Adds a round trip to each call, to measure.
.SH EXAMPLES
.nf
  pagewell ls \-l debian.iso::/boot
  pagewell sum image:/dev/sdb
  pagewell cp \-a /srv/data 'nfs://server/export?wsize=64k::/copy'
  pagewell serve /iso=debian.iso /scratch=ram:1g
  pagewell mount mirror:a.img,b.img /mnt
.fi
.SH "SEE ALSO"
\fBpagewell\fR(1),
\fBpagewell\-serve\fR(1),
\fBpagewell\-mount\fR(1),
\fBpagewell\-cp\fR(1),
\fBpagewell\-mirror\fR(1),
nfs(5)
"#;

/* Part of guest-posix: writes a file through one mapping, reads it through read and the other
 * way round, with sizes that end inside a page. Usage: mapping DIRECTORY */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 3 * 65536 + 777 };

static unsigned char expected(long at) { return (unsigned char)(at * 31 + at / 251); }

static void check(const unsigned char *bytes, const char *how) {
    for (long at = 0; at < SIZE; at++)
        if (bytes[at] != expected(at))
            errx(1, "%s: byte %ld is wrong", how, at);
}

int main(int count, char **arguments) {
    static unsigned char buffer[SIZE];
    if (count != 2 || chdir(arguments[1]) != 0)
        err(1, "usage: mapping DIRECTORY");

    int file = open("mapped", O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0 || ftruncate(file, SIZE) != 0)
        err(1, "mapped");
    unsigned char *shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED)
        err(1, "mmap");
    for (long at = 0; at < SIZE; at++)
        shared[at] = expected(at);
    if (msync(shared, SIZE, MS_SYNC) != 0)
        err(1, "msync");
    if (pread(file, buffer, SIZE, 0) != SIZE)
        err(1, "pread");
    check(buffer, "read after a mapping wrote");

    memset(buffer, 0, SIZE);
    if (pwrite(file, buffer, SIZE, 0) != SIZE || fsync(file) != 0)
        err(1, "pwrite");
    for (long at = 0; at < SIZE; at++)
        if (shared[at] != 0)
            errx(1, "the mapping does not see what was written at %ld", at);
    for (long at = 0; at < SIZE; at++)
        buffer[at] = expected(at);
    if (pwrite(file, buffer, SIZE, 0) != SIZE || munmap(shared, SIZE) != 0 || close(file) != 0)
        err(1, "close");

    file = open("mapped", O_RDONLY);
    shared = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, file, 0);
    if (shared == MAP_FAILED)
        err(1, "private mapping");
    check(shared, "private mapping");
    if (unlink("mapped") != 0)
        err(1, "unlink");
    check(shared, "mapping of an unlinked file");
    return 0;
}

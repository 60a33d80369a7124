// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// A disk that a test can fill. PostgreSQL's server needs one that an ordinary user can make, and only root can mount a disk.
///
/// A library between the server and the system makes every call that would extend a file fail with `ENOSPC`, as on a disk without a free
/// block. Overwriting in place still works, as it does there. So the server meets the real failures: an insert that needs a new page fails,
/// and the server goes down when the write-ahead log needs a new file.
struct FullDisk: Sendable {
    private static let source = """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <stdlib.h>
        #include <sys/stat.h>
        #include <sys/uio.h>
        #include <unistd.h>

        static int is_refused(int file, off_t end) {
            struct stat there;
            const char *mark = getenv("SIWATCH_FULL_DISK");
            if (!mark || fstat(file, &there) != 0 || !S_ISREG(there.st_mode) || end <= there.st_size) return 0;
            if (access(mark, F_OK) != 0) return 0;
            errno = ENOSPC;
            return 1;
        }

        static off_t length(const struct iovec *pieces, int count) {
            off_t sum = 0;
            for (int i = 0; i < count; i++) sum += pieces[i].iov_len;
            return sum;
        }

        ssize_t pwrite(int file, const void *bytes, size_t count, off_t place) {
            static ssize_t (*real)(int, const void *, size_t, off_t);
            if (!real) real = dlsym(RTLD_NEXT, "pwrite");
            return is_refused(file, place + count) ? -1 : real(file, bytes, count, place);
        }

        ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t place) { return pwrite(file, bytes, count, place); }

        ssize_t pwritev(int file, const struct iovec *pieces, int count, off_t place) {
            static ssize_t (*real)(int, const struct iovec *, int, off_t);
            if (!real) real = dlsym(RTLD_NEXT, "pwritev");
            return is_refused(file, place + length(pieces, count)) ? -1 : real(file, pieces, count, place);
        }

        ssize_t pwritev64(int file, const struct iovec *pieces, int count, off64_t place) { return pwritev(file, pieces, count, place); }

        int posix_fallocate(int file, off_t place, off_t count) {
            static int (*real)(int, off_t, off_t);
            if (!real) real = dlsym(RTLD_NEXT, "posix_fallocate");
            return is_refused(file, place + count) ? ENOSPC : real(file, place, count);
        }

        int posix_fallocate64(int file, off64_t place, off64_t count) { return posix_fallocate(file, place, count); }
        """

    /// The disk is full while this file exists.
    private let mark: URL
    private let folder: URL

    /// - Parameter folder: a folder from which the server may read the library.
    init(in folder: URL) throws {
        self.folder = folder
        mark = folder.appending(path: "full")
        try Self.source.write(to: folder.appending(path: "full-disk.c"), atomically: true, encoding: .utf8)
    }

    /// The shell commands that build the library in the folder. Every Swift toolchain has a C compiler.
    let building = "cc=$(command -v clang || command -v cc) && $cc -shared -fPIC -O1 -o full-disk.so full-disk.c -ldl"

    var environment: String { "env LD_PRELOAD='\(folder.path)/full-disk.so' SIWATCH_FULL_DISK='\(mark.path)'" }

    var isFull: Bool {
        get { FileManager.default.fileExists(atPath: mark.path) }
        nonmutating set {
            if newValue {
                _ = FileManager.default.createFile(atPath: mark.path, contents: nil)
            } else {
                try? FileManager.default.removeItem(at: mark)
            }
        }
    }
}

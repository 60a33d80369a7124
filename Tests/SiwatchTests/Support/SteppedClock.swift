// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// A process's wall clock that a test sets while the process runs. It does not change timers and clocks that never step. libfaketime would
/// delay timers on such clocks, which no real step does.
struct SteppedClock {
    let environment: [String: String]
    private let file: URL

    private static let source = """
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdint.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <sys/syscall.h>
        #include <sys/time.h>
        #include <time.h>
        #include <unistd.h>

        static const volatile int64_t *ahead;

        __attribute__((constructor)) static void find(void) {
            const char *path = getenv("SIWATCH_CLOCK_AHEAD");
            int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
            if (file < 0) return;
            void *place = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
            if (place != MAP_FAILED) ahead = place;
            close(file);
        }

        int clock_gettime(clockid_t clock, struct timespec *time) {
            int result = syscall(SYS_clock_gettime, clock, time);
            if (result == 0 && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += *ahead;
            return result;
        }

        int gettimeofday(struct timeval *restrict time, void *restrict zone) {
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            time->tv_sec = now.tv_sec;
            time->tv_usec = now.tv_nsec / 1000;
            return 0;
        }

        time_t time(time_t *place) {
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            if (place) *place = now.tv_sec;
            return now.tv_sec;
        }
        """

    /// Builds the library between the process and the system. Every Swift toolchain has a C compiler.
    init(in folder: WatchedFolder) async throws {
        file = folder.url.appending(path: "clock")
        let (text, library) = (folder.url.appending(path: "clock.c"), folder.url.appending(path: "clock.so"))
        environment = ["LD_PRELOAD": library.path, "SIWATCH_CLOCK_AHEAD": file.path]
        try Data(count: MemoryLayout<Int64>.size).write(to: file)
        try Self.source.write(to: text, atomically: true, encoding: .utf8)
        let arguments = ["cc", "clang"].map { "command -v \($0)" }.joined(separator: " || ")
        let compiler = try ChildProcess.shell("$(\(arguments)) -shared -fPIC -O1 -o \"$0\" \"$1\"", library.path, text.path)
        guard await compiler.exit() == 0 else { throw HarnessError("no library for the clock: \(compiler.output)") }
    }

    /// - Parameter ahead: the lead over the machine's clock, in whole seconds.
    func step(to ahead: Duration) throws {
        let writer = try FileHandle(forWritingTo: file)
        // Overwrite it in place, because the process has mapped it.
        withUnsafeBytes(of: ahead.components.seconds) { writer.write(Data($0)) }
        try writer.close()
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

package enum KernelLock: Sendable {
    /// SQLite's lock of the one writer of a database in WAL mode.
    case write
    /// flock(2) on the file beside a database: the lock of the one siwatch that may work on it.
    case siwatch
    /// A lock of the whole file, which keeps new connections out. In WAL mode a program takes it for an instant only, if at all.
    case file

    /// The bytes that SQLite locks in the file: `PENDING_BYTE`, `RESERVED_BYTE` and `SHARED_SIZE` of its os.h.
    private static let fileBytes = 0x4000_0000...0x4000_01ff

    /// Which byte of the shared memory SQLite locks for a writer: `WALINDEX_LOCK_OFFSET` of its wal.c, the first of eight locks.
    private static let writeByte = 120

    /// The process that holds the lock, if the kernel tells it. Asking by fcntl(2) would need a descriptor, and closing that would end all
    /// locks of SQLite in this process.
    package func holder(ofDatabase path: String) -> LockHolder? {
        var status = stat()
        guard stat(path + place.suffix, &status) == 0,
            let locks = try? String(contentsOfFile: "/proc/locks", encoding: .utf8)
        else { return nil }
        // Any program may lock a whole file of its own, on another device.
        let (major, minor) = (status.st_dev >> 8 & 0xfff, status.st_dev & 0xff | status.st_dev >> 12 & 0xfff00)
        let device = self == .file ? [major, minor].map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(separator: ":") : nil
        return holder(ofInode: UInt64(status.st_ino), on: device, in: locks).map(LockHolder.init)
    }

    private var place: (suffix: String, kind: String, bytes: ClosedRange<Int>) {
        switch self {
        case .write: ("-shm", "POSIX", Self.writeByte...Self.writeByte)
        case .siwatch: (".lock", "FLOCK", 0...0)
        case .file: ("", "POSIX", Self.fileBytes)
        }
    }

    /// - Parameter locks: the text of `/proc/locks`: number, kind, mode, access, process, device with inode, first byte, last byte.
    func holder(ofInode inode: UInt64, on device: String? = nil, in locks: String) -> Int32? {
        let (_, kind, bytes) = place
        for line in locks.split(separator: "\n") {
            let words = line.split(separator: " ")
            guard words.count == 8, words[1] == kind, words[3] == "WRITE", words[5].split(separator: ":").last == "\(inode)",
                device.map({ words[5].hasPrefix($0 + ":") }) ?? true,
                let first = Int(words[6]), let last = words[7] == "EOF" ? Int.max : Int(words[7]), first <= bytes.upperBound,
                bytes.lowerBound <= last
            else { continue }
            return Int32(words[4])
        }
        return nil
    }
}

package struct LockHolder: Equatable, CustomStringConvertible {
    /// Zero or less for a process of another namespace.
    package var process: Int32

    /// The process in words. Its name may hold any characters.
    package var description: String {
        guard process > 0 else { return "a process outside of this container" }
        let name = (try? String(contentsOfFile: "/proc/\(process)/comm", encoding: .utf8))?.split(separator: "\n").first
        return name.map { "process \(process) (\($0))" } ?? "process \(process)"
    }

    /// Empty if this host cannot end the process.
    package var remedy: String { process > 0 ? "; sudo kill \(process) rolls its transaction back" : "" }
}

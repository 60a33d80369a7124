// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Which file stands at a path, as the kernel tells files apart.
struct FileIdentity: Sendable, Equatable {
    private let device: UInt64
    private let inode: UInt64

    /// - Throws: `POSIXError`
    init(at path: String) throws {
        var status = stat()
        guard stat(path, &status) == 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        (device, inode) = (UInt64(status.st_dev), UInt64(status.st_ino))
    }
}

extension SQLiteStore {
    /// Whether another file stands at a path than the one that is open, in a sentence; nil where it is the one. A look costs one `stat`.
    ///
    /// - Parameter path: the name by which the file was opened; a link in it may lead elsewhere by now.
    package func displacement(from path: String) -> String? {
        guard let identity else { return nil }
        do {
            return try FileIdentity(at: path) == identity ? nil : "\(path) is not the file any more that siwatch has open"
        } catch POSIXError.ENOENT, POSIXError.ENOTDIR {
            return "\(path) is gone, and siwatch has its file still open"
        } catch {
            // What cannot be looked at is not known to be gone.
            return nil
        }
    }
}

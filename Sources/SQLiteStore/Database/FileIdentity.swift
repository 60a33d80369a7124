// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The identity of the file at a path, as the kernel tells files apart.
struct FileIdentity: Sendable, Equatable {
    private let device: UInt64
    private let inode: UInt64

    /// - Throws: `POSIXError`.
    init(at path: String) throws {
        var status = stat()
        guard stat(path, &status) == 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        (device, inode) = (UInt64(status.st_dev), UInt64(status.st_ino))
    }
}

extension SQLiteStore {
    /// A sentence if another file now stands at the path; nil if the open file does. Costs one `stat`.
    ///
    /// - Parameter path: the name that opened the file. A link in it may lead elsewhere by now.
    package func displacement(from path: String) -> String? {
        guard let identity else { return nil }
        do {
            return try FileIdentity(at: path) == identity ? nil : "\(path) is not the file any more that siwatch has open"
        } catch POSIXError.ENOENT, POSIXError.ENOTDIR {
            return "\(path) is gone, and siwatch has its file still open"
        } catch {
            // A failed `stat` does not prove that the file is gone.
            return nil
        }
    }
}

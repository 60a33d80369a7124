// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// A text that a person has put on disk, read whole.
enum TextFile {
    /// - Parameter limit: In bytes.
    static func read(_ path: String, limit: Int) throws(TextFileError) -> String {
        // Not blocking, lest a named pipe hold us for ever.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .unreadable(String(cString: strerror(errno))) }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard let bytes = try? file.read(upToCount: limit + 1) ?? Data() else {
            throw .unreadable(String(cString: strerror(errno)))
        }
        guard bytes.count <= limit else { throw .tooLong(limit: limit) }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .notUTF8 }
        return text
    }
}

enum TextFileError: Error, Equatable {
    /// With the system's words.
    case unreadable(String)
    case tooLong(limit: Int)
    case notUTF8
}

extension TextFileError: CustomStringConvertible {
    var description: String {
        switch self {
        case .unreadable(let reason): "cannot be read: \(reason)"
        case .tooLong(let limit): "is longer than \(limit) bytes"
        case .notUTF8: "is not UTF-8"
        }
    }
}

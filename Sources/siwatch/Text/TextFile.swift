// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialSealing
import Foundation

/// Reads a text file that a person has put on disk, as a whole.
enum TextFile {
    /// - Parameter limit: In bytes.
    /// - Parameter isSecret: Refuses the file if others may read or change it.
    static func read(_ path: String, limit: Int, isSecret: Bool = false) throws(TextFileError) -> String {
        // Non-blocking, because opening a named pipe would never return.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .unreadable(systemError()) }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        if isSecret, fstat(descriptor, &status) == 0, KeyFile.isExposed(mode: status.st_mode) {
            throw .exposed(mode: status.modeText, closing: status.closing(path))
        }
        guard let bytes = try? file.read(upToCount: limit + 1) ?? Data() else {
            throw .unreadable(systemError())
        }
        guard bytes.count <= limit else { throw .tooLong(limit: limit) }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .notUTF8 }
        return text
    }
}

enum TextFileError: Error, Equatable {
    /// With the system's text.
    case unreadable(String)
    case tooLong(limit: Int)
    case notUTF8
    /// With what corrects it, as the end of a sentence.
    case exposed(mode: String, closing: String)
}

extension TextFileError: CustomStringConvertible {
    var description: String {
        switch self {
        case .unreadable(let reason): "cannot be read: \(reason)"
        case .tooLong(let limit): "is longer than \(limit) bytes"
        case .notUTF8: "is not UTF-8"
        case .exposed(let mode, let closing): "has the mode \(mode), which lets others read it or change it; \(closing)"
        }
    }
}

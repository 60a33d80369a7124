// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialSealing
import Foundation

/// Reads a text file that a person has put on disk, as a whole.
enum TextFile {
    /// - Parameter limit: In bytes.
    /// - Parameter isSecret: Refuses the file if others may read or change it, and leaves out what editors add and no secret holds: a byte
    ///   order mark, the CR of a line's end, and blank lines around.
    /// - Parameter mayBeDER: Reads DER, which is no text, as its base64.
    static func read(_ path: String, limit: Int, isSecret: Bool = false, mayBeDER: Bool = false) throws(TextFileError) -> String {
        // Non-blocking, because opening a named pipe would never return.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw errno == ENOENT ? .missing : .unreadable(systemError()) }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        if isSecret, fstat(descriptor, &status) == 0 {
            guard status.st_mode & S_IFMT == S_IFREG else { throw .unreadable("not a regular file") }
            if KeyFile.isExposed(mode: status.st_mode) { throw .exposed(mode: status.modeText, closing: status.closing(path)) }
        }
        guard let bytes = try? file.read(upToCount: limit + 1) ?? Data() else {
            throw .unreadable(systemError())
        }
        guard bytes.count <= limit else { throw .tooLong(limit: limit) }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            if mayBeDER, bytes.first == 0x30 { return bytes.base64EncodedString() }
            throw .notUTF8
        }
        guard isSecret else { return text }
        return text.trimmingPrefix("\u{feff}").split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
            .joined(separator: "\n").trimmingCharacters(in: .newlines)
    }
}

enum TextFileError: Error, Equatable, CustomStringConvertible {
    case missing
    /// With the system's text.
    case unreadable(String)
    case tooLong(limit: Int)
    case notUTF8
    /// With what corrects it, as the end of a sentence.
    case exposed(mode: String, closing: String)
    /// It holds something else; the end of a sentence.
    case useless(String)

    var description: String {
        switch self {
        case .missing: "cannot be read: \(systemError(ENOENT))"
        case .unreadable(let reason): "cannot be read: \(reason)"
        case .tooLong(let limit): "is longer than \(limit) bytes"
        case .notUTF8: "is not UTF-8: save it as plain text"
        case .exposed(let mode, let closing): "has the mode \(mode), which lets others read it or change it; \(closing)"
        case .useless(let problem): problem
        }
    }
}

/// The system's text for an error code, by default for the error of the last call.
func systemError(_ code: Int32 = errno) -> String {
    String(cString: strerror(code))
}

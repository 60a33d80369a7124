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
        guard descriptor >= 0 else { throw errno == ENOENT ? .missing : .unusable("cannot be read: \(systemError())") }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        if isSecret, fstat(descriptor, &status) == 0 {
            guard status.st_mode & S_IFMT == S_IFREG else { throw .unusable("cannot be read: not a regular file") }
            if KeyFile.isExposed(mode: status.st_mode) {
                throw .unusable("has the mode \(status.modeText), which lets others read it or change it; \(status.closing(path))")
            }
        }
        guard let bytes = try? file.read(upToCount: limit + 1) ?? Data() else { throw .unusable("cannot be read: \(systemError())") }
        guard bytes.count <= limit else { throw .unusable("is longer than \(limit) bytes") }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            if mayBeDER, bytes.first == 0x30 { return bytes.base64EncodedString() }
            throw .unusable("is not UTF-8: save it as plain text")
        }
        guard isSecret else { return text }
        return text.trimmingPrefix("\u{feff}").split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
            .joined(separator: "\n").trimmingCharacters(in: .newlines)
    }
}

/// What is wrong with a file, as the end of a sentence.
enum TextFileError: Error, Equatable, CustomStringConvertible {
    case missing
    case unusable(String)
    /// It holds something else.
    case useless(String)

    var description: String {
        switch self {
        case .missing: "cannot be read: \(systemError(ENOENT))"
        case .unusable(let problem), .useless(let problem): problem
        }
    }
}

/// The system's text for an error code, by default for the error of the last call.
func systemError(_ code: Int32 = errno) -> String {
    String(cString: strerror(code))
}

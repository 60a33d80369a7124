// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Crypto
import Foundation

/// A file that is looked at, and then told. A regular file is read twice; of a pipe only the beginning is looked at.
struct ImportFile {
    /// Names the import, by the beginning of the file and the client. So a repeated command goes on with the same import.
    let id: String
    let columns: ImportColumns
    let name: String
    /// In bytes; nil for a pipe.
    let size: Int?
    private let descriptor: Int32
    private var reader: CSVReader
    /// The records that were read and not told yet.
    private var head: ArraySlice<CSVRecord> = []

    /// How many records of a pipe are looked at.
    static let headLength = 1000

    /// - Parameter path: - for standard input.
    init(_ path: String, clientID: String?, known: Set<String>, now: Timestamp) throws(CommandFailure) {
        name = path == "-" ? "standard input" : path.printable
        descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .failed("\(name) cannot be read: \(systemError())") }
        var status = stat()
        size = fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG ? Int(status.st_size) : nil
        reader = try CSVReader(descriptor: descriptor, name: name)
        let digest = SHA256.hash(data: reader.beginning + Array("\0\(clientID ?? "")".utf8))
        id = digest.prefix(6).map(\.hexadecimal).joined()
        guard let header = try reader.next() else { throw .wrongUsage("\(name) is empty") }
        columns = try ImportColumns(header: header, clientID: clientID, known: known, now: now)
    }

    /// Looks at the records before anything is told.
    mutating func survey(_ progress: ProgressLine) throws(CommandFailure) -> ImportSurvey {
        var survey = ImportSurvey(columns: columns, seed: id)
        progress.begin("reading", of: size, "bytes")
        defer { progress.end() }
        while size != nil || head.count < Self.headLength, let record = try reader.next() {
            survey.look(at: record)
            if size == nil { head.append(record) }
            if survey.count % 1000 == 0 { progress.set(reader.offset) }
        }
        survey.isWhole = size != nil
        if size != nil { try rewind() }
        return survey
    }

    /// The next record to tell.
    mutating func next() throws(CommandFailure) -> CSVRecord? {
        if let record = head.popFirst() { return record }
        return try reader.next()
    }

    private mutating func rewind() throws(CommandFailure) {
        guard lseek(descriptor, 0, SEEK_SET) == 0 else { throw .failed("\(name) cannot be read again: \(systemError())") }
        reader = try CSVReader(descriptor: descriptor, name: name)
        _ = try reader.next()
    }
}

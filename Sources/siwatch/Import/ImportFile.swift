// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Crypto
import Foundation

/// The file of an import. siwatch reads a regular file twice: the survey reads all of it, then the import tells it. Of a pipe the survey
/// reads only the beginning and keeps it.
struct ImportFile {
    /// Names the import by the options and the content of the file, so that a repeated command goes on with the same import, and an undo
    /// takes back no import with another time. Of a pipe only the beginning counts. Empty before the survey.
    private(set) var id = ""
    let columns: ImportColumns
    let name: String
    /// In bytes; nil for a pipe.
    let size: Int?
    private let handle: FileHandle
    private let version: [Int]
    /// Where the file begins for us: somebody may have read a part of standard input.
    private let start: off_t
    private let rules: ImportColumns.Rules
    private var reader: any RecordReader
    private var others = 0
    /// The records of a pipe that the survey has read and that are not told yet.
    private var head: ArraySlice<CSVRecord> = []
    /// What has ended the survey of a pipe early.
    private var failure: CommandFailure?
    private let beginning: SHA256

    /// How many records of a pipe the survey reads, and after how many bytes it stops.
    private static let headLength = (records: 1000, bytes: 4 << 20)

    /// - Parameter path: - for standard input.
    init(_ path: String, _ rules: ImportColumns.Rules) throws(CommandFailure) {
        name = path == "-" ? "standard input" : path.printable
        self.rules = rules
        guard let handle = Invocation.current.console.open(path) else { throw .failed("\(name) cannot be read: \(systemError())") }
        self.handle = handle
        var status = stat()
        size = fstat(handle.fileDescriptor, &status) == 0 && status.isRegularFile ? Int(status.st_size) : nil
        version = Self.version(status)
        start = size == nil ? 0 : lseek(handle.fileDescriptor, 0, SEEK_CUR)
        reader = try Self.reader(of: handle.fileDescriptor, name, rules.source)
        beginning = reader.digest
        guard let header = try reader.next() else { throw .wrongUsage("\(name) is empty") }
        columns = try ImportColumns(header: header, rules)
    }

    private static func reader(of descriptor: Int32, _ name: String, _ source: ImportSource?) throws(CommandFailure) -> any RecordReader {
        guard let source, source.users != nil else { return try CSVReader(descriptor: descriptor, name: name) }
        return try JSONUserReader(descriptor: descriptor, name: name, source)
    }

    private mutating func nextCounted() throws(CommandFailure) -> CSVRecord? {
        while let record = try reader.next() {
            if columns.counts(record) { return record }
            others += 1
        }
        return nil
    }

    /// Reads the records before anything is told.
    mutating func survey(_ progress: ProgressLine) throws(CommandFailure) -> ImportSurvey {
        var survey = ImportSurvey(columns: columns)
        progress.begin("reading", of: size, "bytes")
        defer { progress.end() }
        do throws(CommandFailure) {
            while size != nil || head.count < Self.headLength.records && reader.offset < Self.headLength.bytes,
                let record = try nextCounted()
            {
                survey.look(at: record)
                if size == nil { head.append(record) }
                if survey.count % 1000 == 0 { progress.set(reader.offset) }
            }
        } catch {
            survey.end = error.description
            // The import meets the failure of a regular file again.
            if size == nil { failure = error }
        }
        var digest = size == nil ? beginning : reader.digest
        digest.update(data: Data("\0\(rules.clientID ?? "")".utf8))
        if let source = rules.source { digest.update(data: Data("\0--from \(source.name)".utf8)) }
        if let grantedAt = rules.grantedAt { digest.update(data: Data("\0\(grantedAt)".utf8)) }
        id = digest.finalize().prefix(6).map(\.hexadecimal).joined()
        survey.isWhole = size != nil
        survey.others = others
        if size != nil { try rewind() }
        return survey
    }

    /// The next record to tell; nil at the end.
    mutating func next() throws(CommandFailure) -> CSVRecord? {
        if let record = head.popFirst() { return record }
        if let failure { throw failure }
        // Thrown after the look: a changed file may look like a broken one, and no record of it is told.
        let record = Result { () throws(CommandFailure) in try nextCounted() }
        try requireUnchanged()
        return try record.get()
    }

    /// Whether a regular file is another one than the survey has begun to read.
    var hasChanged: Bool {
        var status = stat()
        return size != nil && (fstat(handle.fileDescriptor, &status) != 0 || Self.version(status) != version)
    }

    func requireUnchanged() throws(CommandFailure) {
        guard hasChanged else { return }
        throw .failed("\(name) has changed while siwatch import read it, so its rest was not told; repeat the command once it is complete")
    }

    private mutating func rewind() throws(CommandFailure) {
        let descriptor = handle.fileDescriptor
        guard lseek(descriptor, start, SEEK_SET) == start else { throw .failed("\(name) cannot be read again: \(systemError())") }
        reader = try Self.reader(of: descriptor, name, rules.source)
        _ = try reader.next()
    }

    /// Tells whether a program has written to the file.
    private static func version(_ status: stat) -> [Int] {
        [Int(status.st_size), Int(status.st_mtim.tv_sec), Int(status.st_mtim.tv_nsec)]
    }
}

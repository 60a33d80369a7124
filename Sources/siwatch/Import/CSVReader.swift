// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation

/// A record of a CSV file: the fields of one line, or of several lines if a quoted field holds line breaks.
struct CSVRecord: Sendable, Equatable {
    /// The line on which the record begins, from 1.
    var line: Int
    /// At most two more than `mostFields`: the rest of a longer line is dropped.
    var fields: [[UInt8]]
    /// What `line` counts.
    var noun = "line"

    /// A line with more fields is no line of an export.
    static let mostFields = 1000

    var isBlank: Bool { fields == [[]] }
}

/// Yields records of a file, the names of their fields first.
protocol RecordReader {
    /// How much of the file was read, in bytes.
    var offset: Int { get }
    var digest: SHA256 { get }
    /// The next record; nil at the end of the file.
    mutating func next() throws(CommandFailure) -> CSVRecord?
}

/// Reads a CSV file record by record, by RFC 4180: quoted fields, doubled quotes, line breaks in quotes, LF or CRLF, a byte order mark.
///
/// It exists because SwiftCSV takes the whole text as one `String`, and an export may have 10 GB. It holds one record. A comma separates the
/// fields; a semicolon or a tab does so in a file whose first line has no comma.
struct CSVReader: RecordReader {
    private var bytes: ByteReader
    private let name: String
    private let separator: UInt8
    private var line = 1

    var offset: Int { bytes.offset }
    var digest: SHA256 { bytes.digest }

    /// In bytes. A longer record is no record.
    static let longestRecord = 1 << 20

    private enum Place {
        case plain, quoted
        /// After a quote in quotes, which ends them or is the first of two.
        case afterQuote
    }

    init(descriptor: Int32, name: String) throws(CommandFailure) {
        self.name = name
        bytes = try ByteReader(descriptor: descriptor, name: name)
        let header = bytes.unread.prefix { $0 != UInt8(ascii: "\n") }
        separator = [",", "\t", ";"].map { UInt8(ascii: $0) }.first { header.contains($0) } ?? UInt8(ascii: ",")
    }

    /// The next record that is not blank; nil at the end of the file.
    mutating func next() throws(CommandFailure) -> CSVRecord? {
        while let record = try anyRecord() {
            if !record.isBlank { return record }
        }
        return nil
    }

    private mutating func anyRecord() throws(CommandFailure) -> CSVRecord? {
        let start = line
        var fields: [[UInt8]] = []
        var field: [UInt8] = []
        var place = Place.plain
        var (isEmpty, wasQuoted, endsInReturn) = (true, false, false)
        var size = 0
        while let byte = try bytes.next() {
            isEmpty = false
            size += 1
            guard size <= Self.longestRecord else {
                throw unreadable(from: start, place == .quoted ? "a quote opens and does not close" : "the line is longer than 1 MiB")
            }
            if byte == UInt8(ascii: "\n") { line += 1 }
            if place == .quoted {
                if byte == UInt8(ascii: "\"") { place = .afterQuote } else { field.append(byte) }
                continue
            }
            if place == .afterQuote, byte == UInt8(ascii: "\"") {
                field.append(byte)
                place = .quoted
                continue
            }
            place = .plain
            switch byte {
            case UInt8(ascii: "\"") where field.isEmpty && !wasQuoted: (place, wasQuoted) = (.quoted, true)
            case separator:
                if fields.count <= CSVRecord.mostFields { fields.append(field) }
                (field, wasQuoted) = ([], false)
            case UInt8(ascii: "\n"):
                if endsInReturn { field.removeLast() }
                return CSVRecord(line: start, fields: fields + [field])
            default: field.append(byte)
            }
            endsInReturn = byte == UInt8(ascii: "\r")
        }
        guard place != .quoted else { throw unreadable(from: start, "a quote opens and does not close") }
        return isEmpty ? nil : CSVRecord(line: start, fields: fields + [field])
    }

    private func unreadable(from line: Int, _ reason: String) -> CommandFailure {
        .failed("\(name), line \(line): \(reason); nothing from this line on can be read")
    }
}

/// Reads a file of UTF-8 byte by byte, without its byte order mark. It holds a quarter of a mebibyte.
struct ByteReader {
    private let descriptor: Int32
    private let name: String
    private var buffer: [UInt8] = []
    private var position = 0
    private(set) var offset = 0
    private(set) var digest = SHA256()

    /// How much is read before the first byte, in bytes, if the file is that long.
    private static let beginningLength = 65_536

    init(descriptor: Int32, name: String) throws(CommandFailure) {
        (self.descriptor, self.name) = (descriptor, name)
        while buffer.count < Self.beginningLength {
            let more = try read(upTo: Self.beginningLength - buffer.count)
            if more.isEmpty { break }
            buffer += more
        }
        guard !buffer.starts(with: [0xff, 0xfe]), !buffer.starts(with: [0xfe, 0xff]) else {
            throw .wrongUsage("\(name) is UTF-16: save it as UTF-8")
        }
        digest.update(data: buffer)
        offset = buffer.count
        if buffer.starts(with: [0xef, 0xbb, 0xbf]) { position = 3 }
    }

    /// What was read and is not taken yet.
    var unread: ArraySlice<UInt8> { buffer[position...] }

    mutating func next() throws(CommandFailure) -> UInt8? {
        if position == buffer.count {
            buffer = try read(upTo: 262_144)
            position = 0
            offset += buffer.count
            digest.update(data: buffer)
            if buffer.isEmpty { return nil }
        }
        defer { position += 1 }
        return buffer[position]
    }

    /// Empty at the end of the file.
    private func read(upTo length: Int) throws(CommandFailure) -> [UInt8] {
        var chunk = [UInt8](repeating: 0, count: length)
        while true {
            let count = Foundation.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .failed("\(name) cannot be read: \(systemError())") }
            chunk.removeLast(chunk.count - count)
            return chunk
        }
    }
}

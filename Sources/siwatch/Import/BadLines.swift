// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialSealing
import Foundation

struct BadLine: Error, Equatable {
    var line: Int
    /// Without a value of the line, because a token may stand in the wrong column.
    var problem: String
    /// What is not Apple's: the name of a column and what it holds; nil if something else is wrong.
    var foreign: String?
    /// What `line` counts.
    var noun = "line"

    var text: String { "\(noun) \(line): \(problem)" }
}

/// The lines of a file that were left out: the first of them here, all of them in a file if the operator names one.
final class BadLines {
    private(set) var count = 0
    private(set) var first: [BadLine] = []
    private let path: String?
    private var file: FileHandle?

    /// How many lines are shown. A file of another company may have millions of bad ones.
    static let mostShown = 20

    /// - Parameter path: a file to write all of them to, which the first bad line makes; nil for none.
    /// - Throws: if something is there already.
    init(writingTo path: String?) throws(CommandFailure) {
        self.path = path
        guard let path, stat(notFollowing: path) != nil else { return }
        throw .wrongUsage("\(path.printable) is there already: name a new file for --errors")
    }

    func append(_ line: BadLine) throws(CommandFailure) {
        count += 1
        if first.count < Self.mostShown { first.append(line) }
        guard let path else { return }
        do {
            if file == nil {
                try KeyFile.create("", at: path)
                file = FileHandle(forWritingAtPath: path)
            }
            try file?.write(contentsOf: Data("\(line.text)\n".utf8))
        } catch {
            throw .failed("the file of --errors cannot be written: \(error)")
        }
    }

    /// For people: how many there are, and the first of them. Empty if there are none.
    var texts: [String] {
        guard count > 0 else { return [] }
        let more = count - first.count
        return ["\(count.counted("line")) left out"] + first.map(\.text) + (more > 0 ? ["and \(more.counted("more line"))"] : [])
    }
}

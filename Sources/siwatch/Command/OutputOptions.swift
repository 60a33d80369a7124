// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation

struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON, for programs.") var json = false

    /// Prints a report as text, or as JSON with the number of its form, `schema`.
    ///
    /// Swift 6.3.1 crashes in a release build where this is inlined into an asynchronous `run`.
    @inline(never)
    func print(_ report: some Encodable, _ text: @autoclosure () -> String) throws {
        if json { try printJSON(report) } else { try printOutput(text()) }
    }
}

func printJSON(_ report: some Encodable) throws { try printOutput(json(of: report)) }

/// A report as JSON, with the number of its form. Characters that control a terminal are escaped, which the encoder leaves alone.
func json(of report: some Encodable) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    encoder.keyEncodingStrategy = .convertToSnakeCase
    let text = String(decoding: try encoder.encode(Versioned(report: report)), as: UTF8.self)
    return text.unicodeScalars.reduce(into: "") { json, scalar in
        if scalar == "\n" || scalar.isPrintable { json.unicodeScalars.append(scalar) } else { json += scalar.jsonEscape }
    }
}

/// A report with the number of its form. Within one `schema`, members are added but never changed.
private struct Versioned<Report: Encodable>: Encodable {
    let report: Report

    private enum CodingKeys: CodingKey {
        case schema
    }

    func encode(to encoder: any Encoder) throws {
        try report.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(1, forKey: .schema)
    }
}

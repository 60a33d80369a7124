// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Hummingbird

/// The parameters of a request's URI while they are read. An unknown one is a mistake.
struct Query {
    private let parameters: [(name: String, value: String)]
    private var known: Set<String> = []
    private var mistakes: [String] = []

    init(of request: Request) {
        parameters = request.uri.queryParameters.map { (String($0.key), String($0.value)) }
    }

    func has(_ name: String) -> Bool { parameters.contains { $0.name == name } }

    mutating func text(_ name: String, _ form: TextForm) -> String? {
        guard let value = value(of: name) else { return nil }
        guard form.matches(value) else {
            mistakes.append("\(name) has to be \(form.words)")
            return nil
        }
        return value
    }

    mutating func integer(_ name: String, _ range: ClosedRange<Int64>) -> Int64? {
        guard let value = value(of: name) else { return nil }
        guard let number = Int64(decimal: value), range.contains(number) else {
            mistakes.append(TextForm.mistake(name, range))
            return nil
        }
        return number
    }

    mutating func note(_ mistake: String) { mistakes.append(mistake) }

    /// Ends the reading.
    func finish() throws(Problem) {
        let unknown = Set(parameters.map(\.name)).subtracting(known).sorted()
        let all = TextForm.mistake(unknown, known) + mistakes
        guard all.isEmpty else { throw Problem(.badRequest, all.joined(separator: "; ")) }
    }

    private mutating func value(of name: String) -> String? {
        known.insert(name)
        let values = parameters.filter { $0.name == name }
        if values.count > 1 { mistakes.append("\(name) is given twice") }
        return values.first?.value
    }
}

extension Int64 {
    /// A number in decimal digits, without a sign and without leading zeros.
    init?(decimal text: some StringProtocol) {
        guard text == "0" || text.first != "0", text.utf8.allSatisfy(\.isDigit), let number = Int64(text) else { return nil }
        self = number
    }
}

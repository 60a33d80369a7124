// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The last answers, oldest first. Coded as text, one digit each, 1 for a rejection.
struct AnswerWindow: Sendable, Equatable, Codable {
    private var answers: [Bool] = []
    private(set) var rejections = 0

    init() {}

    var count: Int { answers.count }

    mutating func append(_ isRejection: Bool, capacity: Int) {
        answers.append(isRejection)
        if isRejection { rejections += 1 }
        if answers.count > capacity {
            let excess = answers.prefix(answers.count - capacity)
            rejections -= excess.count { $0 }
            answers.removeFirst(excess.count)
        }
    }

    init(from decoder: any Decoder) throws {
        answers = try decoder.singleValueContainer().decode(String.self).utf8.map { $0 == UInt8(ascii: "1") }
        rejections = answers.count { $0 }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(String(decoding: answers.map { UInt8(ascii: $0 ? "1" : "0") }, as: UTF8.self))
    }
}

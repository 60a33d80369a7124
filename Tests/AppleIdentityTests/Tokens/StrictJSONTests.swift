// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTesting
import Testing

@testable import AppleIdentity

@Suite struct StrictJSONTests {
    @Test(arguments: [
        ("null", JSON.null), (" true ", .bool(true)), ("false", .bool(false)), ("\t\r\n0", .integer(0)), ("-0", .integer(0)),
        ("9223372036854775807", .integer(.max)), ("-9223372036854775808", .integer(.min)),
        ("9223372036854775808", .number(9223372036854775808)), ("1.5", .number(1.5)), ("1e3", .number(1000)), ("-2E-2", .number(-0.02)),
        (#""""#, .string("")), (#""\"\\\/\b\f\n\r\t""#, .string("\"\\/\u{8}\u{c}\n\r\t")), (#""\u00e9\uD83D\uDE00é😀""#, .string("é😀é😀")),
        (#""\u0000""#, .string("\0")), ("[]", .array([])), ("[1, [2]]", .array([.integer(1), .array([.integer(2)])])),
        ("{}", .object([:])), (#"{"a":{"a":1}, "b" : null}"#, .object(["a": .object(["a": .integer(1)]), "b": .null])),
    ])
    func readsEveryKindOfValue(_ text: String, _ value: JSON) {
        #expect(JSON(Array(text.utf8)) == value)
    }

    @Test(arguments: [
        "", " ", "nul", "nulll", "True", "NaN", "Infinity", "+1", "01", "-", "-01", "1.", ".5", "1e", "1e+", "1e999", "0x10", "1 2",
        "[1,]", "[,1]", "[1", "]", "{", "{}}", #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#, #"{a:1}"#, #"{'a':1}"#, #"{"a":1 "b":2}"#, #"{1:2}"#,
        #"""#, #""a"#, #""\x""#, #""\u12""#, #""\u12g4""#, "\"\n\"", "\"\u{1}\"", "\"\0\"", "// 1", "1 /* */", "\u{feff}1",
        // Half a surrogate pair.
        #""\ud800""#, #""\udc00""#, #""\ud800\ud800""#, #""\ud800x""#, #""\ud800\n""#,
        // A name twice.
        #"{"a":1,"a":1}"#, #"{"a":1,"b":{"c":1,"\u0063":2}}"#, "{\"é\":1,\"e\u{301}\":2}",
    ])
    func refusesGrammar(_ text: String) {
        #expect(JSON(Array(text.utf8)) == nil)
    }

    @Test(arguments: [[0x80], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82], [0xff]] as [[UInt8]])
    func refusesWhatIsNotUTF8(_ bytes: [UInt8]) {
        let quote = [UInt8(ascii: "\"")]
        #expect(JSON(quote + bytes + quote) == nil)
        #expect(JSON(quote + Array("\\n".utf8) + bytes + quote) == nil)
    }

    @Test func boundsDepth() {
        func nested(_ depth: Int) -> [UInt8] {
            Array((String(repeating: #"[{"a":"#, count: depth / 2) + "1" + String(repeating: "}]", count: depth / 2)).utf8)
        }
        #expect(JSON(nested(JSON.deepest)) != nil)
        #expect(JSON(nested(JSON.deepest + 2)) == nil)
        #expect(JSON(Array(repeating: UInt8(ascii: "["), count: 1_000_000)) == nil)
    }

    @Test func survivesMutation() {
        let texts = [AppleFixture.claims(), AppleFixture.apple.jwk(), #"[1.5e-3,"\ud83d\ude00\n",{"a":[null,true,false]}]"#]
        var generator = SeededGenerator(seed: 1)
        for text in texts { for _ in 0..<4000 { _ = JSON(mutated(Array(text.utf8), using: &generator)) } }
    }

    @Test func readsWhatItWouldWrite() {
        var generator = SeededGenerator(seed: 2)
        for _ in 0..<500 {
            let value = JSON.random(depth: 4, using: &generator)
            #expect(JSON(Array(value.text.utf8)) == value)
        }
    }
}

extension JSON {
    fileprivate static func random(depth: Int, using generator: inout SeededGenerator) -> JSON {
        switch Int.random(in: 0..<(depth > 0 ? 7 : 5), using: &generator) {
        case 0: .null
        case 1: .bool(Bool.random(using: &generator))
        case 2: .integer(Int64.random(in: .min ... .max, using: &generator))
        case 3: .number(Double.random(in: -1e10...1e10, using: &generator) + 0.5)
        case 4: .string(randomText(using: &generator))
        case 5: .array((0..<3).map { _ in random(depth: depth - 1, using: &generator) })
        default:
            .object(Dictionary((0..<3).map { _ in (randomText(using: &generator), random(depth: depth - 1, using: &generator)) }) { $1 })
        }
    }

    private static func randomText(using generator: inout SeededGenerator) -> String {
        String((0..<4).map { _ in "ab\"\\/\n\u{1}é😀 ".randomElement(using: &generator)! })
    }

    fileprivate var text: String {
        switch self {
        case .null: "null"
        case .bool(let value): "\(value)"
        case .integer(let value): "\(value)"
        case .number(let value): "\(value)"
        case .string(let text): Self.escaped(text)
        case .array(let elements): "[" + elements.map(\.text).joined(separator: " ,") + "]"
        case .object(let members): "{" + members.map { "\(Self.escaped($0)): \($1.text)" }.joined(separator: ",") + "}"
        }
    }

    private static func escaped(_ text: String) -> String {
        let units = text.utf16.map { unit in
            let hex = String(unit, radix: 16)
            return "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
        }
        return "\"" + units.joined() + "\""
    }
}

@Suite struct Base64URLTests {
    @Test(arguments: [
        ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"), ("foobar", "Zm9vYmFy"),
    ])
    func knowsTheVectorsOfRFC4648(_ plain: String, _ text: String) {
        #expect(Base64URL.encode(plain.utf8) == text)
        #expect(Base64URL.decode(text.utf8) == Array(plain.utf8))
    }

    @Test(arguments: [
        "Zg==", "Zm8=", "Zg=", "Z", "Zm9vY", "Zm 9v", "Zm9v\n", " Zm9v", "Zm+v", "Zm/v", "Zm9\0", "Zm9é", "Zm.v",
        "Zh", "Zn", "Zm9", "Zm-", "A_",
    ])
    func refusesWhatIsNotTheOneText(_ text: String) {
        #expect(Base64URL.decode(text.utf8) == nil)
    }

    @Test func isABijection() {
        var generator = SeededGenerator(seed: 3)
        for count in 0..<200 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            #expect(Base64URL.decode(Base64URL.encode(bytes).utf8) == bytes)
        }
    }
}

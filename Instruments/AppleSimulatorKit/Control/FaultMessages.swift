// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Fault: ControlMessage {
    package static let route = "POST faults"
    package static let members = CodingKeys.names

    package struct Answer: Codable, Sendable {
        package let id: Int
    }

    package func happen(in simulator: AppleSimulator) throws -> Answer {
        try check()
        return Answer(id: simulator.withWorld { $0.faults.add(self) })
    }

    private func check() throws(ControlError) {
        try CodingKeys.count.check(count, in: 1...Int.max)
        try CodingKeys.delay.check(delay, in: 0...86_400_000)
        try CodingKeys.status.check(status, in: 200...599)
        try CodingKeys.padding.check(padding, in: 0...1_000_000_000)
        if idToken != nil, connection != nil || status != nil {
            throw .malformed("An id_token stands in Apple's own answer, not in a scripted or lost one.")
        }
        if connection == .cut, status == nil { throw .malformed("An answer can only be cut if it has a status and a body.") }
    }
}

package struct ListFaults: ControlMessage {
    package static let route = "GET faults"

    package struct Answer: Codable, Sendable {
        package let faults: [ScheduledFault]
    }

    package func happen(in simulator: AppleSimulator) -> Answer { Answer(faults: simulator.withWorld { $0.faults.all }) }
}

package struct ClearFaults: ControlMessage {
    package static let route = "DELETE faults"

    package init() {}

    package func happen(in simulator: AppleSimulator) -> Done { simulator.change { $0.faults.clear() } }
}

package struct ClearFault: ObjectMessage {
    package static let route = "DELETE faults/:id"

    package let id: Int

    package init(id: Int) { self.id = id }

    package func happen(in simulator: AppleSimulator) throws -> Done { try simulator.change { try $0.faults.clear(id) } }
}

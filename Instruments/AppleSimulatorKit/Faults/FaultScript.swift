// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The faults in force, oldest first. The first fault that fits a request hits it, and no other does.
struct FaultScript: Sendable {
    private var scheduled: [ScheduledFault] = []
    private var lastID = 0

    /// - Returns: the id to clear it by.
    mutating func add(_ fault: Fault) -> Int {
        lastID += 1
        scheduled.append(ScheduledFault(id: lastID, remaining: fault.count, fault: fault))
        return lastID
    }

    mutating func clear(_ id: Int) throws(SimulatorError) {
        guard let index = scheduled.firstIndex(where: { $0.id == id }) else { throw .unknownFault(id) }
        scheduled.remove(at: index)
    }

    mutating func clear() {
        scheduled = []
    }

    /// The fault that hits a request. The request uses up one of the fault's count.
    mutating func next(for request: FaultTarget) -> Fault? {
        guard let index = scheduled.firstIndex(where: { $0.fault.meets(request) }) else { return nil }
        let fault = scheduled[index].fault
        if let remaining = scheduled[index].remaining {
            scheduled[index].remaining = remaining - 1
            if remaining <= 1 { scheduled.remove(at: index) }
        }
        return fault
    }

    var all: [ScheduledFault] { scheduled }
}

/// A fault in force.
package struct ScheduledFault: Sendable, Codable, Equatable {
    package let id: Int
    /// How many more requests it hits; `nil` for all until a caller clears it.
    package internal(set) var remaining: Int?
    package let fault: Fault
}

/// The properties of a request that select its fault.
struct FaultTarget {
    let endpoint: Endpoint
    let grantType: String?
    let clientID: String?
    /// The owner of its token or code, if known.
    let userID: String?
}

extension Fault {
    fileprivate func meets(_ request: FaultTarget) -> Bool {
        if let endpoint, endpoint != request.endpoint { return false }
        if idToken != nil, request.endpoint != .token { return false }
        // siwatch proves its clients at a time of its own, so only a fault that means these requests hits them.
        if grantType != request.grantType, grantType != nil || request.grantType == TokenRequest.clientCredentials { return false }
        if let clientID, clientID != request.clientID { return false }
        if let userIDs {
            guard let userID = request.userID, userIDs.contains(userID) else { return false }
        }
        if let userShare {
            guard let userID = request.userID, Self.place(of: userID) < userShare else { return false }
        }
        return true
    }

    /// A number in 0..<1 that never changes for a user: FNV-1a of the id. The upper half of the hash is mixed better.
    private static func place(of userID: String) -> Double {
        let hash = userID.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        return Double(hash >> 11) / Double(1 << 53)
    }
}

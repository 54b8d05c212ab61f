import * as fc from 'fast-check'

/** Any code points at all. Fast-check's own strings of them, and its web paths, take seconds to get going. */
export const anyText = (maximum = 20): fc.Arbitrary<string> =>
  fc
    .array(fc.oneof(fc.integer({ min: 0, max: 0x7f }), fc.integer({ min: 0, max: 0x10_ffff })), {
      maxLength: maximum,
    })
    .map((points) => String.fromCodePoint(...points))

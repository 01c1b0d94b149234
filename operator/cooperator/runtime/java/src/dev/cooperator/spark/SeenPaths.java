package dev.cooperator.spark;

import java.nio.ByteBuffer;

/** A set of digests of 16 bytes: some 32 bytes for each path, however long it is. */
final class SeenPaths {
  private static final int LEAST = 1 << 10;
  private static final int BYTES = 16;

  /** Two numbers for each place; 0, 0 is a free one. */
  private long[] places = new long[2 * LEAST];

  private int size;

  void clear() {
    places = new long[2 * LEAST];
    size = 0;
  }

  void add(byte[] digest) {
    addAll(digest);
  }

  void addAll(byte[] digests) {
    ByteBuffer all = ByteBuffer.wrap(digests);
    for (int count = digests.length / BYTES; count > 0; count--) {
      put(all.getLong(), all.getLong());
    }
  }

  boolean has(byte[] digest) {
    ByteBuffer one = ByteBuffer.wrap(digest);
    int place = place(one.getLong(), one.getLong());
    return places[place] != 0 || places[place + 1] != 0;
  }

  /** Removes a path, and places those behind it anew. */
  void remove(byte[] digest) {
    ByteBuffer one = ByteBuffer.wrap(digest);
    int place = place(one.getLong(), one.getLong());
    if (places[place] == 0 && places[place + 1] == 0) {
      return;
    }
    free(place);
    for (int next = after(place); places[next] != 0 || places[next + 1] != 0; next = after(next)) {
      long high = places[next];
      long low = places[next + 1];
      free(next);
      put(high, low);
    }
  }

  private void put(long high, long low) {
    if (4 * (size + 1) > places.length) {
      long[] before = places;
      places = new long[2 * before.length];
      size = 0;
      for (int each = 0; each < before.length; each += 2) {
        if (before[each] != 0 || before[each + 1] != 0) {
          put(before[each], before[each + 1]);
        }
      }
    }
    int place = place(high, low);
    if (places[place] == 0 && places[place + 1] == 0) {
      places[place] = high;
      places[place + 1] = low;
      size++;
    }
  }

  private void free(int place) {
    places[place] = 0;
    places[place + 1] = 0;
    size--;
  }

  /** Returns where the digest is, or the free place where it belongs. */
  private int place(long high, long low) {
    int place = 2 * (int) (low & (places.length / 2 - 1));
    while ((places[place] != 0 || places[place + 1] != 0)
        && (places[place] != high || places[place + 1] != low)) {
      place = after(place);
    }
    return place;
  }

  private int after(int place) {
    return (place + 2) % places.length;
  }
}

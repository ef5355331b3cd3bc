"""The memory pool that the streams of one device share (Waterwave, Sec. 4.2), as an exact model."""

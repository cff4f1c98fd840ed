"""Studies that can be run by name; they use the public interface only."""

"""What the folders of the console share: navigation, pages of lists, charts, and links to what a page names."""
